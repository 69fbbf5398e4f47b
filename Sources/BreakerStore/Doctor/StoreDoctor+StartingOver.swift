internal import BreakerCore
internal import Glibc

/// Setting a damaged store aside, and creating a new one in its place.
extension StoreDoctor {
  /// Replaces the damaged store; if any step fails, the damaged store stays where it was.
  func startOver() throws(StoreError) -> String {
    let place = try StoreSite(path)
    // If the file is sound enough to be locked, no other process is in a transaction now.
    let holder = try SetAside.lock(place, lockTimeout: lockTimeout)
    defer { withExtendedLifetime(holder) {} }
    let somebodyElse = "somebody else has already done it"
    // Another repair may have created a new store meanwhile.
    guard StoreFile.identity(of: place.path) == place.file.identity else { return somebodyElse }
    // An examination that misses a log just being started may have seen half a change.
    if let holder, (try? holder.text("PRAGMA integrity_check(1)")) == "ok" {
      return "there is no damage while nobody writes, so it was left as it is"
    }
    let salvage = Salvage(of: place, clock: clock, lockTimeout: lockTimeout)
    let fresh = place.beside(".new-\(UInt32.random(in: .min ... .max))")
    defer { ([""] + StoreSite.all).forEach { unsafe unlink(fresh + $0) } }
    try make(fresh, like: place.file.rights, with: salvage)
    let aside = try StoreLock.held(place.path, atMost: lockTimeout) {
      _ throws(StoreError) -> String? in
      guard StoreFile.identity(of: place.path) == place.file.identity else { return nil }
      let name = SetAside.name(for: place.path, at: clock.wallMilliseconds)
      try Replacement.run(place, by: fresh, setAsideAs: name)
      return StorePath.split(name).file
    }
    guard let aside else { return somebodyElse }
    // Creates the files beside the store.
    try withStorage { _ in }
    let taken = CountedNoun.text(salvage.breakers.count, "breaker")
    return "it is now \(aside), and the new one took over \(taken)"
  }

  /// Creates a complete store in a single file, under a name that nobody looks for.
  private func make(
    _ path: String, like rights: FileRights, with salvage: Salvage
  ) throws(StoreError) {
    close(try NewFile.create(path, rights, mustHave: true))
    var access = StoreAccess()
    access.isTemporary = true
    let storage = SQLiteStorage(
      path: path, access: access, lockTimeout: lockTimeout, clock: clock, program: program)
    try storage.open(mayCreate: true)
    defer { storage.close() }
    try salvage.bring(to: storage)
    storage.close()
    // Move the whole log into the file, or the log would have to move along with it.
    let connection = try Connection(path: path, lockTimeout: lockTimeout)
    let isHeldUp = try connection.integer("PRAGMA wal_checkpoint(TRUNCATE)")
    guard isHeldUp == 0 else {
      throw StoreError(.busy, "the new store \(StoreError.visible(path)) is in use: try again")
    }
  }
}

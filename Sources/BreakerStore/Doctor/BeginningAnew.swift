internal import BreakerCore
internal import Glibc

/// Setting a damaged store aside, and creating a new one in its place.
extension StoreDoctor {
  /// Replaces the damaged store; if any step fails, the damaged store stays where it was.
  func beginAnew() throws(StoreError) -> String {
    let place = try StorePlace(path)
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
    defer { ([""] + StorePlace.all).forEach { unsafe unlink(fresh + $0) } }
    try make(fresh, like: place.file.rights, with: salvage)
    let aside = try StoreLock.held(place.path, atMost: lockTimeout) {
      _ throws(StoreError) -> String? in
      guard StoreFile.identity(of: place.path) == place.file.identity else { return nil }
      let name = SetAside.name(for: place.path, at: clock.wallMilliseconds)
      try SetAside.replace(place, by: fresh, setAsideAs: name)
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
    close(try NewFile.create(path, rights))
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

/// Moving files out of the way.
enum SetAside {
  /// A free name beside the store: the store's name, the time, and a number if needed.
  static func name(for path: String, at milliseconds: Int64) -> String {
    let name = "\(path).corrupt-\(time(milliseconds))"
    var number = 1
    var free = name
    while ([""] + StorePlace.suffixes).contains(where: { FileStatus(of: free + $0) != nil }) {
      number += 1
      free = "\(name)-\(number)"
    }
    return free
  }

  /// The UTC time as `20260921T142300Z`.
  private static func time(_ milliseconds: Int64) -> String {
    var seconds = time_t(milliseconds / 1_000)
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    var text = [CChar](repeating: 0, count: 32)
    let length = unsafe strftime(&text, text.count, "%Y%m%dT%H%M%SZ", &parts)
    return String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  static func move(_ path: String, to other: String) throws(StoreError) {
    guard unsafe rename(path, other) == 0 else {
      throw StoreError(errno: errno, doing: "set aside", path: path)
    }
  }

  /// Moves a store and its other files away, and another file into its place: all or nothing.
  static func replace(
    _ place: StorePlace, by fresh: String, setAsideAs name: String
  ) throws(StoreError) {
    var moved: [(from: String, to: String)] = []
    do throws(StoreError) {
      // The store first: a process that opens it meanwhile finds none, and waits for the lock.
      for suffix in [""] + StorePlace.suffixes where FileStatus(of: place.beside(suffix)) != nil {
        try move(place.beside(suffix), to: name + suffix)
        moved.append((place.beside(suffix), name + suffix))
      }
      try move(fresh, to: place.path)
    } catch {
      moved.reversed().forEach { unsafe rename($0.to, $0.from) }
      throw error
    }
    _ = DirectorySync.run(place.directory)
  }

  /// A connection that holds the write lock; nil if the file is too damaged to be locked.
  static func lock(_ place: StorePlace, lockTimeout: Duration) throws(StoreError) -> Connection? {
    do throws(StoreError) {
      let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
      try connection.execute("BEGIN IMMEDIATE")
      return connection
    } catch {
      switch error.kind {
      case .corrupt, .notAStore: return nil
      default: throw error
      }
    }
  }
}

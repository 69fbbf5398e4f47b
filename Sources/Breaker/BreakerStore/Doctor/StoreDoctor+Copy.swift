internal import Glibc

/// Copying a whole store, and putting a copy into its place.
extension StoreDoctor {
  /// Copies the store as it is at one instant, while other processes use it.
  ///
  /// An earlier copy at that path is replaced only once the new one is complete. The successes that
  /// are not yet counted in the store are in a second file, as beside the store itself.
  ///
  /// - Throws: `StoreError` if there is no store, or the copy cannot be written.
  package func copy(to target: String) throws(StoreError) {
    try forks.shut { () throws(StoreError) in
      // As any other use does, this sets another store's log aside, and keeps the store's own.
      try withStorage { _ throws(StoreError) in
        let place = try StoreSite(path)
        let target = StorePath.absolute(target)
        try refuse(target, beside: place)
        let fresh = Self.temporaryName(beside: target)
        defer { Self.remove(fresh) }
        // The copy is its maker's alone.
        let rights = FileRights(
          mode: 0o600, user: FileRights.unchanged, group: FileRights.unchanged)
        close(try NewFile.create(fresh, rights, mustHave: false, doing: "write the copy"))
        try copyAll(of: place, to: fresh)
        // Last, so that they lack no success that the copy has not counted.
        try Self.copyCounters(of: place, to: fresh, rights)
        try Self.put(fresh, inPlaceOf: target)
      }
    }
  }

  /// Puts a copy into the place of the store, which is moved aside; processes that use it notice
  /// within a second.
  ///
  /// - Returns: The name under which the earlier store is now; nil if there was none.
  /// - Throws: `StoreError` if the copy is not a sound store; then nothing has changed.
  package func restore(from source: String) throws(StoreError) -> String? {
    try forks.shut { () throws(StoreError) in
      let source = try StoreSite(StorePath.absolute(source))
      try refuseUnsound(source)
      // An interrupted repair has left a store too.
      try completeReplacement()
      // Where there is none, the place gets the rights that this user wants for a store.
      if FileStatus(of: path) == nil { try withStorage(mayCreate: true) { _ in } }
      let place = try StoreSite(path)
      guard source.file.identity != place.file.identity else { throw Self.isStore(source.path) }
      let fresh = Self.temporaryName(beside: place.path)
      defer { Self.remove(fresh) }
      try make(fresh, like: place.file.rights) { () throws(StoreError) in
        try source.copyReader(lockTimeout: lockTimeout).copy(to: fresh)
        try Self.forgetFile(fresh, lockTimeout: lockTimeout)
        try Self.copyCounters(of: source, to: fresh, place.file.rights)
      } filled: { _ in
      }
      let aside = try replace(place, by: fresh)
      do throws(StoreError) {
        // Creates the files beside the store.
        try withStorage { _ in }
      } catch {
        // The next use of the store does it.
      }
      guard isEmpty(aside) else { return aside }
      Self.remove(aside)
      return nil
    }
  }

  /// Replaces a store that no process is writing to.
  private func replace(_ place: StoreSite, by fresh: String) throws(StoreError) -> String {
    let holder = try SetAside.lock(place, lockTimeout: lockTimeout)
    defer { withExtendedLifetime(holder) {} }
    return try StoreLock.held(place.path, atMost: lockTimeout) { _ throws(StoreError) in
      guard StoreFile.identity(of: place.path) == place.file.identity else {
        throw StoreError.replaced(place.path)
      }
      let name = SetAside.name(
        for: place.path, at: clock.wallMilliseconds, infix: SetAside.replaced)
      try Replacement.run(place, by: fresh, setAsideAs: name)
      // No process creates counters meanwhile, because that needs the lock. Without them, only
      // successes are missing.
      unsafe Glibc.rename(fresh + CounterFile.suffix, place.beside(CounterFile.suffix))
      return name
    }
  }

  /// Whether a store that was moved aside never had a breaker.
  private func isEmpty(_ path: String) -> Bool {
    do throws(StoreError) {
      let reader = try StoreSite(path).copyReader(lockTimeout: lockTimeout)
      return try reader.integer(
        "SELECT (SELECT count(*) FROM breaker) + (SELECT count(*) FROM event)") == 0
    } catch {
      return false
    }
  }
}

/// Refusals of files that are no copy, and of places for one.
extension StoreDoctor {
  private func refuseUnsound(_ source: StoreSite) throws(StoreError) {
    let reader = try source.copyReader(lockTimeout: lockTimeout)
    guard try reader.integer("PRAGMA application_id") == Migrator.applicationID else {
      throw StoreError(
        .notAStore,
        "the file \(StoreError.visible(source.path)) is no copy of a store: use one that"
          + " 'cbctl backup' has made")
    }
    let version = try reader.integer("PRAGMA user_version")
    guard (1...Migrator.version).contains(version) else {
      throw StoreError(
        .newerVersion,
        "the copy \(StoreError.visible(source.path)) has version \(version), but this program"
          + " knows versions up to \(Migrator.version): upgrade it")
    }
    let found = try reader.text("PRAGMA integrity_check(1)")
    guard found == "ok" else {
      throw StoreError(
        .corrupt,
        "the copy \(StoreError.visible(source.path)) is damaged (\(found)): use another one")
    }
  }

  /// Refuses a path of the store's own files, and one at which something is that is no copy.
  private func refuse(_ target: String, beside place: StoreSite) throws(StoreError) {
    guard !StorePath.split(target).file.isEmpty else {
      throw StoreError(errno: EISDIR, doing: "write the copy", path: target)
    }
    guard let file = FileStatus(of: target) else { return }
    let own = ([""] + StoreSite.all).map { StoreFile.identity(of: place.beside($0)) }
    guard !own.contains(file.identity) else { throw Self.isStore(target) }
    guard file.isRegular else {
      throw StoreError(
        errno: file.isLink ? ELOOP : EISDIR, doing: "write the copy", path: target)
    }
    let isCopy = file.size == 0 ? true : StoreEvidence.isOurs(try StoreSite(target))
    guard isCopy else {
      throw StoreError(
        .other,
        "the file \(StoreError.visible(target)) is no copy of a store: name another one, or move it"
          + " away")
    }
    guard !LogOwner.isInUse(beside: target) else {
      throw StoreError(
        .busy,
        "the file \(StoreError.visible(target)) is a store that is in use: name another one, or"
          + " use 'cbctl restore'")
    }
  }

  private static func isStore(_ path: String) -> StoreError {
    StoreError(
      .other,
      "the copy cannot be the store itself, \(StoreError.visible(path)): name another file")
  }
}

extension StoreDoctor {
  /// Copies everything but the counters into an empty file.
  private func copyAll(of place: StoreSite, to fresh: String) throws(StoreError) {
    let log = StoreFile.identity(of: place.beside(StoreFile.logSuffix))
    let reader = try Connection(path: place.path, lockTimeout: lockTimeout)
    try reader.copy(to: fresh)
    // Otherwise the log of another store may have been read.
    try reader.refuseMoved()
    guard log == StoreFile.identity(of: place.beside(StoreFile.logSuffix)) else {
      throw StoreError.replaced(place.path)
    }
  }

  /// Puts a complete copy into the place of an earlier one, which is no process's store.
  private static func put(_ fresh: String, inPlaceOf target: String) throws(StoreError) {
    for suffix in ["", CounterFile.suffix] where FileStatus(of: fresh + suffix) != nil {
      try sync(fresh + suffix)
    }
    // A program that has looked at the earlier copy has left a log, which is not the new one's.
    for suffix in StoreSite.suffixes { unsafe unlink(target + suffix) }
    for suffix in ["", CounterFile.suffix] where FileStatus(of: fresh + suffix) != nil {
      guard unsafe Glibc.rename(fresh + suffix, target + suffix) == 0 else {
        throw StoreError(errno: errno, doing: "write the copy", path: target)
      }
    }
    _ = DirectorySync.run(StorePath.split(target).directory)
  }

  /// Makes a copy draw a new lineage, also if its file gets the number of the one it was drawn in.
  private static func forgetFile(_ path: String, lockTimeout: Duration) throws(StoreError) {
    let connection = try Connection(path: path, lockTimeout: lockTimeout)
    try connection.execute("UPDATE store SET lineage_file = 0", to: "be restored")
  }

  private static func temporaryName(beside path: String) -> String {
    path + ".new-\(UInt32.random(in: .min ... .max))"
  }

  private static func remove(_ path: String) {
    ([""] + StoreSite.all + ["-journal"]).forEach { unsafe unlink(path + $0) }
  }

  private static func sync(_ path: String) throws(StoreError) {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    defer { if descriptor >= 0 { close(descriptor) } }
    guard descriptor >= 0, fsync(descriptor) == 0 else {
      throw StoreError(errno: errno, doing: "write the copy", path: path)
    }
  }

  /// Copies the counters beside a store, if there are any.
  private static func copyCounters(
    of place: StoreSite, to fresh: String, _ rights: FileRights
  ) throws(StoreError) {
    guard let counters = CounterFile.opened(place.beside(CounterFile.suffix), O_RDONLY) else {
      return
    }
    defer { close(counters.descriptor) }
    let path = fresh + CounterFile.suffix
    let copy = try NewFile.create(path, rights, mustHave: false, doing: "write the copy")
    defer { close(copy) }
    var offset: off_t = 0
    while true {
      let count = unsafe sendfile(copy, counters.descriptor, &offset, 1 << 20)
      if count == 0 { return }
      if count < 0, errno != EINTR {
        throw StoreError(errno: errno, doing: "write the copy", path: path)
      }
    }
  }
}

extension StoreSite {
  /// A connection that reads a copy, with its log if it has one of its own.
  fileprivate func copyReader(lockTimeout: Duration) throws(StoreError) -> Connection {
    let hasLog = (FileStatus(of: beside(StoreFile.logSuffix))?.size ?? 0) > 0
    let isFileAlone = !hasLog || LogOwner.isOfAnother(beside: path)
    return try Connection(
      reading: path, way: isFileAlone ? Connection.immutable : "mode=ro", lockTimeout: lockTimeout)
  }
}

extension Connection {
  /// Copies everything as of one instant into an empty file.
  fileprivate func copy(to path: String) throws(StoreError) {
    do throws(StoreError) {
      let target = try prepare("VACUUM INTO ?1")
      target.bind(1, path)
      try target.run()
    } catch {
      guard error.kind == .diskFull else { throw error }
      throw StoreError(errno: ENOSPC, doing: "write the copy", path: path)
    }
  }
}

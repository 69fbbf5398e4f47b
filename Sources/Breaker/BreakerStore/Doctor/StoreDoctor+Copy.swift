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
      let place = try StoreSite(path)
      let target = StorePath.absolute(target)
      try refuse(target, as: "a copy", unlessOtherThan: place)
      let fresh = Self.temporaryName(beside: target)
      defer { Self.remove(fresh) }
      var rights = place.file.rights
      rights.mode &= 0o600
      close(try NewFile.create(fresh, rights, mustHave: false, doing: "write the copy"))
      let reader = try Connection(path: place.path, lockTimeout: lockTimeout)
      try reader.copy(to: fresh)
      // Last, so that it lacks no success that the copy has not counted.
      try Self.copyCounters(of: place, to: fresh, rights)
      for suffix in [CounterFile.suffix, ""] {
        if FileStatus(of: fresh + suffix) != nil {
          try Self.sync(fresh + suffix)
          try Self.rename(fresh + suffix, to: target + suffix)
        } else {
          unsafe unlink(target + suffix)
        }
      }
      _ = DirectorySync.run(StorePath.split(target).directory)
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
      let wasThere = FileStatus(of: path) != nil
      // It has the rights that this user wants for a store.
      if !wasThere { try withStorage(mayCreate: true) { _ in } }
      let place = try StoreSite(path)
      try refuse(source.path, as: "the copy", unlessOtherThan: place)
      let fresh = Self.temporaryName(beside: place.path)
      defer { Self.remove(fresh) }
      try make(fresh, like: place.file.rights) { () throws(StoreError) in
        try source.reader(lockTimeout: lockTimeout).copy(to: fresh)
        try Self.copyCounters(of: source, to: fresh, place.file.rights)
      } filled: { _ in
      }
      let aside = try replace(place, by: fresh)
      if !wasThere { Self.remove(aside) }
      try withStorage { _ in }
      return wasThere ? aside : nil
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

  private func refuseUnsound(_ source: StoreSite) throws(StoreError) {
    guard StoreEvidence.isOurs(source), source.file.size > 0 else {
      throw StoreError(
        .notAStore,
        "the file \(StoreError.visible(source.path)) is no copy of a store: use one that 'cbctl backup' has made"
      )
    }
    let found = try source.reader(lockTimeout: lockTimeout).text("PRAGMA integrity_check(1)")
    guard found == "ok" else {
      throw StoreError(
        .corrupt,
        "the copy \(StoreError.visible(source.path)) is damaged (\(found)): use another one")
    }
  }

  private func refuse(
    _ path: String, as what: String, unlessOtherThan place: StoreSite
  ) throws(StoreError) {
    guard StoreFile.identity(of: path) != place.file.identity else {
      throw StoreError(
        .other, "\(what) cannot be the store itself, \(StoreError.visible(path)): name another file"
      )
    }
  }
}

extension StoreDoctor {
  private static func temporaryName(beside path: String) -> String {
    path + ".new-\(UInt32.random(in: .min ... .max))"
  }

  private static func remove(_ path: String) {
    ([""] + StoreSite.all).forEach { unsafe unlink(path + $0) }
  }

  private static func rename(_ path: String, to other: String) throws(StoreError) {
    guard unsafe Glibc.rename(path, other) == 0 else {
      throw StoreError(errno: errno, doing: "write the copy", path: other)
    }
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
  /// A connection that reads the store without creating a file beside it.
  func reader(lockTimeout: Duration) throws(StoreError) -> Connection {
    let hasLog = (FileStatus(of: beside(StoreFile.logSuffix))?.size ?? 0) > 0
    return try Connection(
      reading: path, way: hasLog ? "mode=ro" : Connection.immutable, lockTimeout: lockTimeout)
  }
}

extension Connection {
  /// Copies everything as of one instant into an empty file.
  fileprivate func copy(to path: String) throws(StoreError) {
    let target = try prepare("VACUUM INTO ?1")
    target.bind(1, path)
    try target.run()
  }
}

internal import BreakerCore
internal import Glibc

/// Setting a damaged store aside, and beginning a new one in its place.
extension StoreDoctor {
  func beginAnew() throws(StoreError) -> String {
    let place = try StorePlace(path)
    let salvage = Salvage(of: place, clock: clock, lockTimeout: lockTimeout)
    let aside = try DirectoryLock.held(place.directory, atMost: lockTimeout) {
      () throws(StoreError) -> String? in
      // Another repair may have begun a new one meanwhile.
      guard StoreFile.identity(of: place.path) == place.file.identity else { return nil }
      // Nobody is in the middle of a transaction then, if the file is sound enough to be locked.
      let holder = SetAside.lock(place, lockTimeout: lockTimeout)
      defer { withExtendedLifetime(holder) {} }
      let name = SetAside.name(for: place.path, at: clock.wallMilliseconds)
      // The store first: who opens it meanwhile finds none, and waits for the lock to make one.
      for suffix in [""] + StorePlace.suffixes where FileStatus(of: place.beside(suffix)) != nil {
        try SetAside.move(place.beside(suffix), to: name + suffix)
      }
      try StoreFile.createEmpty(place.path, like: place.file.rights)
      return StorePath.split(name).file
    }
    guard let aside else { return "somebody else has done it" }
    try withStorage { storage throws(StoreError) in try salvage.bring(to: storage) }
    return "it is \(aside) now, and \(salvage.breakers.count) breakers were taken over"
  }
}

/// Moving files out of the way.
enum SetAside {
  /// A name beside the store that nothing has: its own, with the time, and a number if need be.
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

  /// A connection that holds the lock for writing; nil where it cannot be had.
  static func lock(_ place: StorePlace, lockTimeout: Duration) -> Connection? {
    do throws(StoreError) {
      let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
      try connection.execute("BEGIN IMMEDIATE")
      return connection
    } catch {
      return nil
    }
  }
}

extension StoreFile {
  /// Makes an empty file that those can use who could use another one.
  static func createEmpty(_ path: String, like rights: FileRights) throws(StoreError) {
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw StoreError(errno: errno, doing: "make", path: path) }
    defer { close(descriptor) }
    // Who shares a store through its group cannot make a file somebody else's.
    guard
      fchown(descriptor, rights.user, rights.group) == 0
        || fchown(descriptor, uid_t.max, rights.group) == 0
    else { throw StoreError(errno: errno, doing: "change the group of", path: path) }
    guard fchmod(descriptor, mode_t(rights.mode)) == 0 else {
      throw StoreError(errno: errno, doing: "change the mode of", path: path)
    }
  }
}

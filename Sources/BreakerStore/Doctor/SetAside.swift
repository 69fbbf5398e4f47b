internal import Glibc

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
      guard error.kind == .corrupt || error.kind == .notAStore else { throw error }
      return nil
    }
  }
}

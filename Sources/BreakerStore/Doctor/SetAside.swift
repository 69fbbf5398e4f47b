internal import Glibc

/// Moving files out of the way.
enum SetAside {
  /// What follows the name of a file that was set aside; the time comes after it.
  static let infix = ".corrupt-"

  /// A free name beside the store: the store's name, the time, and a number if needed.
  static func name(for path: String, at milliseconds: Int64) -> String {
    let name = path + infix + time(milliseconds)
    var number = 1
    var free = name
    while ([""] + StoreSite.suffixes).contains(where: { FileStatus(of: free + $0) != nil }) {
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

  /// A connection that holds the write lock; nil if the file is too damaged to be locked.
  static func lock(_ place: StoreSite, lockTimeout: Duration) throws(StoreError) -> Connection? {
    do throws(StoreError) {
      let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
      connection.log = LogOwner.log(beside: place.path, mayWrite: true)
      try connection.beginAlone()
      return connection
    } catch {
      guard error.kind == .corrupt || error.kind == .notAStore else { throw error }
      return nil
    }
  }
}

internal import CSQLite

/// The length of the write-ahead log, as SQLite reports it after each commit.
@safe final class LogLength {
  /// The length at which the log is moved into the file.
  ///
  /// With the small pages of a store, this is little less than what one part of SQLite's index of
  /// the log holds, and a reader has to look into each part (sqlite.org/walformat.html, 2.2).
  static let limitInBytes: Int64 = 4_000 * 1_024

  private let limit: Int32
  private var pages: Int32 = 0
  private var next: Int32

  /// Whether the whole log was moved into the file, with nothing written since.
  private(set) var isFolded = false

  /// The part of a small file system that the log may take.
  ///
  /// If it took the rest of it, the store would have no room to grow when the log is moved there.
  private static let share: Int64 = 8

  /// - Parameters:
  ///   - pageSize: The size of a page in bytes.
  ///   - fileSystemSize: The size of the file system in bytes; nil if it is not known.
  init(pageSize: Int64, fileSystemSize: Int64?) {
    let longest = min(Self.limitInBytes, fileSystemSize.map { $0 / Self.share } ?? .max)
    limit = Int32(clamping: longest / max(512, pageSize))
    next = limit
  }

  var isDue: Bool { pages >= next }

  var isOverdue: Bool { pages >= 4 * limit }

  func install(on handle: OpaquePointer) {
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe sqlite3_wal_hook(
      handle,
      { context, _, _, pages in
        guard let context = unsafe context else { return SQLITE_OK }
        let log = unsafe Unmanaged<LogLength>.fromOpaque(context).takeUnretainedValue()
        if pages < log.pages { log.next = log.limit }
        log.pages = pages
        log.isFolded = false
        return SQLITE_OK
      }, context)
  }

  /// Notes a checkpoint; if an old reader kept the log from restarting, the next try comes later.
  func checkpointed(isFolded: Bool) {
    next = pages + limit
    self.isFolded = isFolded
  }
}

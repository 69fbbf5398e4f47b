internal import CHost
internal import CSQLite

/// A page at a fixed address that shows the header of SQLite's WAL-index.
///
/// Every commit by any program rewrites that header, whose first copy ends in a checksum, so one
/// load tells whether anything has changed. The address stays valid for the life of the object.
/// While no file is open the page reads as zero, the fingerprint that stands for nothing. Unchecked
/// because the pointers never change and loads through them are atomic.
@safe final class WALIndexPage: @unchecked Sendable {
  private let page: UnsafeMutableRawPointer

  /// The address of the fingerprint; loads from it need no lock.
  let fingerprint: UnsafePointer<UInt64>

  init?() {
    guard let page = unsafe sb_index_page() else { return nil }
    unsafe self.page = page
    // The header's checksum, at byte 40 (sqlite.org/walformat.html, 2.1).
    unsafe fingerprint = UnsafePointer(
      page.advanced(by: 40).assumingMemoryBound(to: UInt64.self))
  }

  /// How many transactions all programs have committed since the WAL-index was created.
  func commits() -> UInt32 {
    // The header's change counter, at byte 8.
    unsafe sb_load32(page.advanced(by: 8).assumingMemoryBound(to: UInt32.self))
  }

  /// The fingerprint of the commit with this count; nil if the page shows a different commit.
  ///
  /// The header is stored twice, and a commit writes the second copy first
  /// (sqlite.org/walformat.html, 2.1). A reader that has loaded the first checksum therefore finds
  /// the same commit in the second copy, or a later one, but never an earlier one.
  func fingerprint(ofCommit count: UInt32) -> UInt64? {
    let first = unsafe sb_load(fingerprint)
    let second = unsafe page.advanced(by: 48)
    let commits = unsafe sb_load32(second.advanced(by: 8).assumingMemoryBound(to: UInt32.self))
    let checksum = unsafe sb_load(second.advanced(by: 40).assumingMemoryBound(to: UInt64.self))
    return first == checksum && commits == count ? first : nil
  }

  /// Loads a fingerprint.
  static func load(_ fingerprint: UnsafePointer<UInt64>) -> UInt64 { unsafe sb_load(fingerprint) }

  deinit { unsafe sb_index_free(page) }

  /// Shows the WAL-index of a connection; false if it has none to show.
  func attach(to connection: Connection) -> Bool {
    guard let index = unsafe sb_wal_index(connection.handle) else { return false }
    return unsafe sb_index_attach(page, index) == 0
  }

  func detach() { unsafe sb_index_detach(page) }
}

/// The length of the write-ahead log, as SQLite reports it after each commit.
@safe final class LogLength {
  /// The length at which the log is moved into the file.
  ///
  /// With the small pages of a store, this is little less than what one part of SQLite's index of
  /// the log holds, and a reader has to look into each part (sqlite.org/walformat.html, 2.2).
  static let limitInBytes: Int64 = 4_000 * 1_024

  private let limit: Int32
  private let isOnSmallDisk: Bool
  private var pages: Int32 = 0
  private var next: Int32

  /// Whether the whole log was moved into the file, with nothing written since.
  private(set) var isFolded = false

  /// The part of a small file system that the log may take.
  ///
  /// A longer log could leave no room for the store to grow when the log is moved into it.
  private static let share: Int64 = 8

  /// - Parameters:
  ///   - pageSize: The size of a page in bytes.
  ///   - fileSystemSize: The size of the file system in bytes; nil if it is not known.
  init(pageSize: Int64, fileSystemSize: Int64?) {
    let part = fileSystemSize.map { $0 / Self.share } ?? .max
    isOnSmallDisk = part < Self.limitInBytes
    let longest = min(Self.limitInBytes, part)
    limit = Int32(clamping: longest / max(512, pageSize))
    next = limit
  }

  var isDue: Bool { pages >= next }

  var isOverdue: Bool { pages >= 4 * limit }

  /// Whether reads have kept the log from starting over for so long that it takes too much of a small disk.
  var isTooLong: Bool { isOnSmallDisk && pages >= 2 * limit }

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

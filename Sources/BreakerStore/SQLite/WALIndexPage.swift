internal import CHost

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

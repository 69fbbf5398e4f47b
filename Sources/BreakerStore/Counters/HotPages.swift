internal import CHost

/// The pages of memory on which this process counts.
///
/// The kernel may drop such a page, and read it from the disk again. If the disk has failed
/// meanwhile, that kills the process in the middle of a healthy call. So the pages are kept in
/// memory, as many as the system allows; the rest is used as it is.
struct HotPages {
  private var pages: Set<UInt> = []
  private var forks = sb_fork_depth()

  private static let bytesOfPage: UInt = 4_096

  /// How many pages are kept: what other code of the process may need of the system's limit is left.
  private static let most = Int(min(256 << 10, sb_memory_limit() / 4) / UInt64(bytesOfPage))

  /// Keeps what lies at an address in memory.
  mutating func keep(_ address: UnsafeMutableRawPointer, _ length: Int) {
    let first = UInt(bitPattern: address) / Self.bytesOfPage
    let last = (UInt(bitPattern: address) + UInt(length) - 1) / Self.bytesOfPage
    for page in first...last where pages.count < Self.most && pages.insert(page).inserted {
      Self.keep(page)
    }
  }

  /// Keeps the same pages in memory in the child of a fork, which does not inherit that.
  mutating func keepAfterFork() {
    let forks = sb_fork_depth()
    guard forks != self.forks else { return }
    self.forks = forks
    pages.forEach(Self.keep)
  }

  private static func keep(_ page: UInt) {
    _ = unsafe sb_keep_in_memory(UnsafeRawPointer(bitPattern: page * bytesOfPage), Int(bytesOfPage))
  }
}

internal import BreakerCore
internal import CHost
internal import Glibc

/// The counters that all processes of a store share, mapped into memory.
///
/// An address stays valid for the life of the object, because threads count there without a lock. A
/// new file is therefore mapped beside the old one, in which processes that do not know about the
/// new file yet continue to count together. Only the latest few files stay mapped. Where earlier
/// ones were mapped, there is now memory private to this process, and what is counted there is
/// discarded. Unchecked because the compiler does not know that the lock guards which are mapped.
@safe package final class CounterPage: @unchecked Sendable {
  private let lock = Lock()
  private var place: CounterFile.Place?
  private var identity: FileIdentity?
  private var segments: [Segment?] = []

  /// The segments of replaced files that are still mapped, those of the latest file last.
  private var retired: [[Segment]] = []

  /// Addresses where segments of earlier files were mapped.
  private var emptied: [Segment] = []

  /// The pages in use, which the system is asked to keep in memory.
  private var hot = HotPages()

  /// How many files stay mapped after they have been replaced.
  static let retiredFiles = 8

  /// When to try again after the file could not be opened, on the monotonic clock.
  private var nextTry: Int64 = 0

  /// When this process may replace a file again, on the monotonic clock.
  ///
  /// Two processes that each consider the other's file wrong must not fill the disk.
  private var nextReplacement: Int64 = 0

  @safe private struct Segment {
    var address: UnsafeMutableRawPointer
  }

  /// Breakers with this id or a higher one have no counters here.
  static let limit: Int64 = 1 << 27

  deinit {
    for segment in segments.compactMap({ $0 }) + retired.flatMap({ $0 }) + emptied {
      unsafe munmap(segment.address, CounterFile.bytesOfSegment)
    }
  }

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  /// Uses the file of a store from now on, which may be the one that is already in use.
  ///
  /// - Parameters:
  ///   - place: Where the file lies, and which store and boot it has to belong to.
  ///   - timeout: How long to wait for processes that are creating the file. Without the file, the
  ///     breakers of this process are counted apart until their next write.
  func use(_ place: CounterFile.Place, atMost timeout: Duration) {
    lock.withLock {
      if place != self.place {
        retire()
        identity = nil
      }
      self.place = place
      nextTry = 0
      withFile(atMost: timeout) { _ in }
      hot.keepAfterFork()
    }
  }

  /// Switches to the file that is at the path now, if it is a different one.
  func lookAfterFile() {
    lock.withLock {
      guard let place, identity != StoreFile.identity(of: place.path) else { return }
      withFile { _ in }
    }
  }

  /// The counters of a breaker; nil if it cannot have any.
  func counters(ofBreaker id: Int64) -> Counters? {
    guard id > 0, id < Self.limit else { return nil }
    let (segment, index) = Int(id).quotientAndRemainder(
      dividingBy: CounterFile.breakersOfSegment)
    lock.lock()
    defer { lock.unlock() }
    guard let start = unsafe address(ofSegment: segment) else { return nil }
    let words = unsafe start + index * CounterFile.bytesOfCounters
    let marks =
      unsafe start + CounterFile.breakersOfSegment * CounterFile.bytesOfCounters
      + index * CounterFile.bytesOfMarks
    unsafe hot.keep(words, CounterFile.bytesOfCounters)
    unsafe hot.keep(marks, CounterFile.bytesOfMarks)
    return unsafe Counters(
      at: words.assumingMemoryBound(to: UInt64.self),
      marks: BucketMarks(marks.assumingMemoryBound(to: UInt64.self)))
  }
}

/// Mapping; the caller holds the lock.
extension CounterPage {
  private func address(ofSegment index: Int) -> UnsafeMutableRawPointer? {
    if index < segments.count, let segment = segments[index] { return unsafe segment.address }
    withFile { file in
      while segments.count <= index { segments.append(nil) }
      segments[index] = map(index, of: file)
    }
    return index < segments.count ? unsafe segments[index]?.address : nil
  }

  private func retire() {
    let mapped = segments.compactMap { $0 }
    segments = []
    guard !mapped.isEmpty else { return }
    retired.append(mapped)
    guard retired.count > Self.retiredFiles else { return }
    for segment in retired.removeFirst() {
      // Releases the file's disk space. A segment that cannot be emptied stays mapped.
      unsafe sb_empty_mapping(segment.address, CounterFile.bytesOfSegment)
      emptied.append(segment)
    }
  }

  /// Opens the file only briefly, because every child would inherit a descriptor that stayed open.
  private func withFile(
    atMost timeout: Duration = .milliseconds(10), _ body: (CounterFile) -> Void
  ) {
    let now = Patience.monotonicNanoseconds()
    guard let place, now >= nextTry else { return }
    guard
      let file = CounterFile.open(
        place, isOfThisBoot: identity != nil, mayReplace: now >= nextReplacement, atMost: timeout)
    else {
      nextTry = Patience.deadline(after: .seconds(1))
      return
    }
    defer { close(file.descriptor) }
    if file.isReplacement { nextReplacement = Patience.deadline(after: .seconds(1)) }
    if file.identity != identity {
      retire()
      identity = file.identity
    }
    body(file)
  }

  private func map(_ index: Int, of file: CounterFile) -> Segment? {
    // Map only what has been reserved, or a full disk would kill the process.
    if file.reserve(segment: index) {
      let address = unsafe mmap(
        nil, CounterFile.bytesOfSegment, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor,
        CounterFile.offset(ofSegment: index))
      if unsafe address != MAP_FAILED, let address = unsafe address {
        return unsafe Segment(address: address)
      }
    }
    nextTry = Patience.deadline(after: .seconds(1))
    return nil
  }
}

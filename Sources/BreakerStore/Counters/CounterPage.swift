internal import BreakerCore
internal import CHost
internal import Glibc

/// The counters that all processes of a store share, as memory.
///
/// An address that was given out stays good for the life of the object, because threads count there
/// without a lock. A new file is therefore mapped beside the old one, in which processes that do not
/// know of the new one yet go on to count together. Only the latest few files stay mapped: where
/// earlier ones were, there is memory of this process alone, and nothing that is counted there counts.
@safe final class CounterPage: @unchecked Sendable {
  private let lock = Lock()
  private var place: CounterFile.Place?
  private var identity: FileIdentity?
  private var segments: [Segment?] = []

  /// The segments of files that were replaced and are still mapped, the latest file last.
  private var retired: [[Segment]] = []

  /// Where segments of earlier files were mapped.
  private var emptied: [Segment] = []

  /// How many files stay mapped after they were replaced.
  static let retiredFiles = 8

  /// When a file that could not be had is looked for again, on the monotonic clock.
  private var nextTry: Int64 = 0

  /// When this process may replace a file again, on the monotonic clock.
  ///
  /// Two processes that each hold the other's file to be wrong must not fill the disk.
  private var nextReplacement: Int64 = 0

  @safe private struct Segment {
    var address: UnsafeMutableRawPointer
  }

  /// Breakers beyond this id have no counters here.
  static let limit: Int64 = 1 << 27

  deinit {
    for segment in segments.compactMap({ $0 }) + retired.flatMap({ $0 }) + emptied {
      unsafe munmap(segment.address, CounterFile.bytesOfSegment)
    }
  }

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  /// Uses the file of a store from now on, which may be the one that is used already.
  func use(_ place: CounterFile.Place) {
    lock.withLock {
      if place != self.place {
        retire()
        identity = nil
      }
      self.place = place
      nextTry = 0
      withFile(atMost: .milliseconds(500)) { _ in }
    }
  }

  /// Uses the file that is there now, if it is another one.
  func lookAfterFile() {
    lock.withLock {
      guard let place, identity != StoreFile.identity(of: place.path) else { return }
      withFile { _ in }
    }
  }

  /// The counters of a breaker; nil if there can be none.
  func counters(ofBreaker id: Int64) -> Counters? {
    guard id > 0, id < Self.limit else { return nil }
    let (segment, index) = Int(id).quotientAndRemainder(
      dividingBy: CounterFile.breakersOfSegment)
    let start = unsafe lock.withLock { unsafe address(ofSegment: segment) }
    guard let start = unsafe start else { return nil }
    let words = unsafe start + index * CounterFile.bytesOfCounters
    let marks =
      unsafe start + CounterFile.breakersOfSegment * CounterFile.bytesOfCounters
      + index * CounterFile.bytesOfMarks
    return unsafe Counters(
      at: words.assumingMemoryBound(to: UInt64.self),
      marks: BucketMarks(marks.assumingMemoryBound(to: UInt64.self)))
  }
}

/// Mapping, under the lock.
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
      // Gives the room of the file back. A segment that cannot be emptied stays mapped.
      unsafe sb_empty_mapping(segment.address, CounterFile.bytesOfSegment)
      emptied.append(segment)
    }
  }

  /// Opens the file for a moment: a descriptor that stays would be inherited by every child.
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
    // Mapped only with its room reserved: a disk that is full would else kill the process.
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

internal import BreakerCore
internal import Glibc

/// The counters that all processes of a store share, as memory.
///
/// An address that was given out stays good for the life of the object: a new file is mapped beside
/// the old one, in which those who do not know of it yet go on to count together.
@safe final class CounterPage: @unchecked Sendable {
  private let lock = Lock()
  private var place: CounterFile.Place?
  private var identity: FileIdentity?
  private var segments: [Segment?] = []

  /// Segments of files that were replaced.
  private var retired: [Segment] = []

  /// When a file that could not be had is looked for again, on the monotonic clock.
  private var nextTry: Int64 = 0

  @safe private struct Segment {
    var address: UnsafeMutableRawPointer
  }

  /// Breakers beyond this id have no counters here.
  static let limit: Int64 = 1 << 27

  deinit {
    retire()
    for segment in retired { unsafe munmap(segment.address, CounterFile.bytesOfSegment) }
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
    retired += segments.compactMap { $0 }
    segments = []
  }

  /// Opens the file for a moment: a descriptor that stays would be inherited by every child.
  private func withFile(
    atMost timeout: Duration = .milliseconds(10), _ body: (CounterFile) -> Void
  ) {
    guard let place, Patience.monotonicNanoseconds() >= nextTry else { return }
    guard let file = CounterFile.open(place, atMost: timeout) else {
      nextTry = Patience.deadline(after: .seconds(1))
      return
    }
    defer { close(file.descriptor) }
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

internal import BreakerCore
internal import Glibc

/// The counters that all processes of a store share, as memory.
///
/// An address that was given out stays good for the life of the object: if the file was replaced,
/// the new one is mapped in the place of the old one.
@safe final class CounterPage: @unchecked Sendable {
  private let lock = Lock()
  private var place: CounterFile.Place?
  private var identity: FileIdentity?
  private var segments: [Segment?] = []

  /// When a file that could not be had is looked for again, on the monotonic clock.
  private var nextTry: Int64 = 0

  @safe private struct Segment {
    var address: UnsafeMutableRawPointer

    /// Whether it is mapped to the file, or only keeps its address.
    var isShared: Bool
  }

  /// Breakers beyond this id have no counters here.
  private static let limit: Int64 = 1 << 27

  deinit {
    for segment in segments {
      if let segment { unsafe munmap(segment.address, CounterFile.bytesOfSegment) }
    }
  }

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  /// Uses the file of a store from now on, which may be the one that is used already.
  func use(_ place: CounterFile.Place) {
    lock.withLock {
      self.place = place
      nextTry = 0
      withFile { _ in }
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
    if index < segments.count, let segment = segments[index], segment.isShared {
      return unsafe segment.address
    }
    while segments.count <= index { segments.append(nil) }
    withFile { show(index, of: $0) }
    guard let segment = segments[index], segment.isShared else { return nil }
    return unsafe segment.address
  }

  /// Opens the file for a moment: a descriptor that stays would be inherited by every child.
  private func withFile(_ body: (CounterFile) -> Void) {
    guard let place, Patience.monotonicNanoseconds() >= nextTry else { return }
    guard let file = CounterFile.open(place) else {
      nextTry = Patience.deadline(after: .seconds(1))
      return
    }
    defer { close(file.descriptor) }
    if file.identity != identity {
      identity = file.identity
      for index in segments.indices where segments[index] != nil { show(index, of: file) }
    }
    body(file)
  }

  /// Maps a segment of the file at its address, or at a new one.
  private func show(_ index: Int, of file: CounterFile) {
    let earlier = segments[index]
    let fixed = earlier == nil ? 0 : MAP_FIXED
    // Mapped only with its room reserved: a disk that is full would else kill the process.
    if file.reserve(segment: index) {
      let address = unsafe mmap(
        earlier?.address, CounterFile.bytesOfSegment, PROT_READ | PROT_WRITE, MAP_SHARED | fixed,
        file.descriptor, CounterFile.offset(ofSegment: index))
      if unsafe address != MAP_FAILED, let address = unsafe address {
        unsafe segments[index] = Segment(address: address, isShared: true)
        return
      }
    }
    nextTry = Patience.deadline(after: .seconds(1))
    guard let earlier else { return }
    unsafe mmap(
      earlier.address, CounterFile.bytesOfSegment, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
    segments[index]?.isShared = false
  }
}

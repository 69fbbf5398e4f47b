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
      withFile(atMost: timeout) { file in
        // Few stores have more than one segment, and opening the file again would cost as much.
        if segments.isEmpty, file.has(segment: 0) { segments = [map(0, of: file)] }
      }
      hot.keepAfterFork()
    }
  }

  /// Switches to the file that is at the path now, if it is a different one.
  func lookAfterFile() {
    lock.withLock {
      guard let place, identity != StoreFile.identity(of: place.path(of: CounterFile.kind))
      else { return }
      withFile { _ in }
    }
  }

  /// Finds the counters of a breaker.
  ///
  /// - Parameters:
  ///   - id: The row of the breaker.
  ///   - hasBudget: Whether its attempts are counted as well, under a budget for retries.
  /// - Returns: The counters; nil if it cannot have any.
  func counters(ofBreaker id: Int64, hasBudget: Bool = false) -> Counters? {
    guard id > 0, id < Self.limit else { return nil }
    let (segment, index) = Int(id).quotientAndRemainder(
      dividingBy: CounterFile.breakersOfSegment)
    lock.lock()
    defer { lock.unlock() }
    guard let start = unsafe address(ofSegment: segment) else { return nil }
    let words = unsafe start + index * CounterFile.bytesOfCounters
    let allMarks = unsafe start + CounterFile.breakersOfSegment * CounterFile.bytesOfCounters
    let marks = unsafe allMarks + index * CounterFile.bytesOfMarks
    let attempts =
      unsafe allMarks + CounterFile.breakersOfSegment * CounterFile.bytesOfMarks
      + index * CounterFile.bytesOfAttempts
    unsafe hot.keep(words, CounterFile.bytesOfCounters)
    unsafe hot.keep(marks, CounterFile.bytesOfMarks)
    if hasBudget { unsafe hot.keep(attempts, CounterFile.bytesOfAttempts) }
    return unsafe Counters(
      at: words.assumingMemoryBound(to: UInt64.self),
      marks: BucketMarks(marks.assumingMemoryBound(to: UInt64.self)),
      attempts: AttemptTally(attempts.assumingMemoryBound(to: UInt64.self)))
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
    var found: CounterFile?
    do throws(StoreError) {
      found = try CounterFile.open(
        place, isOfThisBoot: identity != nil, mayReplace: now >= nextReplacement, atMost: timeout)
    } catch {
      // Descriptors may be free again at once, and asking for one costs little. A wait that was ended early shows nothing.
      if error.isOfDescriptors || error.isInterrupted { return }
    }
    guard let file = found else {
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
    if let address = unsafe file.map(segment: index) { return unsafe Segment(address: address) }
    nextTry = Patience.deadline(after: .seconds(1))
    return nil
  }
}

/// Keeping rows and the counter page consistent.
///
/// A row names its counters by a random key, and records how much of them it has taken in. Counters
/// with another key were lost, or belong to another row. The successes since the row was last
/// written are then unknown, so its window starts from scratch rather than show too high a share of
/// failures.
///
/// The key is negative while every success is written to the row, because a process that wrote the
/// row could not reach its counters.
extension CounterPage {
  /// Where the successes of a row are counted; nil if it has no such counters, or has lost them.
  func counters(of breaker: StoredBreaker) -> Counters? {
    breaker.countersKey > 0 ? ownCounters(of: breaker) : nil
  }

  /// The counters that a row names, whether or not they are in use.
  private func ownCounters(of breaker: StoredBreaker) -> Counters? {
    guard breaker.countersKey != 0 else { return nil }
    if let counters = mappedCounters(of: breaker) { return counters }
    // Another process may have replaced the file that is mapped here.
    lookAfterFile()
    return mappedCounters(of: breaker)
  }

  private func mappedCounters(of breaker: StoredBreaker) -> Counters? {
    guard
      let counters = counters(
        ofBreaker: breaker.id, hasBudget: breaker.policy.retryBudget != nil),
      counters.key.magnitude == breaker.countersKey.magnitude
    else { return nil }
    return counters
  }

  /// Takes in what was counted since the row was written.
  func takeIn(to breaker: inout StoredBreaker, at now: Instant) {
    guard let counters = ownCounters(of: breaker) else {
      if breaker.countersKey > 0 { breaker.usedAtMilliseconds = nil }
      return
    }
    let counted = counters.read()
    if counted != breaker.takenIn { breaker.usedAtMilliseconds = nil }
    guard counted != breaker.takenIn, let passed = counted.since(breaker.takenIn),
      !areDamaged(counters, of: breaker, at: now)
    else { return }
    var calls = HealthyCalls()
    calls.totals = passed.totals
    let policy = breaker.policy
    // While every success is written to the row, it is already in the window.
    if breaker.countersKey > 0 {
      calls.successes = passed.successes
      if let length = policy.window?.inNanoseconds, let marks = counters.marks {
        calls.buckets = marks.buckets(
          at: now, width: TimeWindow.width(ofLength: length), total: counted.successes,
          latest: passed.successes)
      }
    }
    breaker.record.takeIn(calls, policy: policy)
    breaker.takenIn = counted
  }

  /// Gives a row new counters if it has lost its own; the transaction must then write the row.
  func tie(to breaker: inout StoredBreaker, at now: Instant) {
    guard let counters = ownCounters(of: breaker), counters.read().since(breaker.takenIn) != nil,
      !areDamaged(counters, of: breaker, at: now)
    else {
      renew(&breaker)
      return
    }
    if breaker.countersKey < 0 { breaker.countersKey = counters.key }
  }

  private func areDamaged(
    _ counters: Counters, of breaker: StoredBreaker, at now: Instant
  ) -> Bool {
    guard let length = breaker.policy.window?.inNanoseconds, let marks = counters.marks else {
      return false
    }
    let width = TimeWindow.width(ofLength: length)
    return marks.isAnyAhead(of: { counters.successes }, at: now, width: width)
  }

  private func renew(_ breaker: inout StoredBreaker) {
    guard let counters = counters(ofBreaker: breaker.id) else {
      doWithout(&breaker)
      return
    }
    // A process that still has the old key stops counting here once it has seen the new one.
    counters.key = 0
    breaker.takenIn = counters.read()
    counters.marks?.clear()
    counters.attempts.clear()
    breaker.countersKey = .random(in: 1 ... .max)
    counters.key = breaker.countersKey
    breaker.record.window = .none
  }

  /// Switches to writing every success if the row has a window: no other count can be seen here.
  private func doWithout(_ breaker: inout StoredBreaker) {
    guard breaker.countersKey > 0, !CallWindow.none.fits(breaker.policy) else { return }
    breaker.countersKey = -breaker.countersKey
    breaker.record.window = .none
  }
}

/// The pages of memory on which this process counts.
///
/// The kernel may drop such a page, and read it from the disk again. If the disk has failed
/// meanwhile, that kills the process in the middle of a healthy call. So the pages are kept in
/// memory, as many as the system allows; the rest is used as it is.
struct HotPages {
  /// So few that looking through them costs less than a hash does.
  private var pages: [UInt] = []
  private var forks = sb_fork_depth()

  private static let bytesOfPage: UInt = 4_096

  /// How many pages are kept.
  private let most: Int

  /// Keeps so many bytes at most, and leaves most of what the system allows to other code of the process.
  init(atMost bytes: UInt64 = 256 << 10) {
    most = Int(min(bytes, sb_memory_limit() / 4) / UInt64(Self.bytesOfPage))
  }

  /// Keeps what lies at an address in memory.
  mutating func keep(_ address: UnsafeMutableRawPointer, _ length: Int) {
    let first = UInt(bitPattern: address) / Self.bytesOfPage
    let last = (UInt(bitPattern: address) + UInt(length) - 1) / Self.bytesOfPage
    for page in first...last where pages.count < most && !pages.contains(page) {
      pages.append(page)
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

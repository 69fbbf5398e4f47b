internal import BreakerCore
internal import BreakerStore
public import CHost
public import Synchronization

/// This process's side of one breaker.
@usableFromInline @safe final class Cell: Sendable {
  // A healthy call reads these, so they come first and lie close together. They are written before the
  // fingerprint that vouches for them, and read after it (rule of order 5).

  @usableFromInline let bits = Atomic<UInt64>(0)

  /// Where this process counts: in the counter page, or else for itself.
  ///
  /// An atomic, which Swift does not call `Sendable` only because it holds a pointer.
  @usableFromInline
  nonisolated(unsafe) let counters = unsafe Atomic<UnsafeMutablePointer<UInt64>?>(nil)

  /// When a breaker that rejects calls is due for a probe.
  private let openUntil = Atomic<Int64>(0)

  /// By how much longer a time callers are told at most, in parts per million.
  private let jitter = Atomic<Int64>(0)

  /// The nanoseconds that make a call slow.
  private let slowAfter = Atomic<Int64>(.max)

  /// Up to when, on the coarse clock, the bucket of now is known to be marked.
  private let markedUntil = Atomic<Int64>(0)

  let name: String

  /// What this process has counted for itself; created when it is first needed, and kept.
  ///
  /// An atomic, like the counters.
  private nonisolated(unsafe) let own = unsafe Atomic<UnsafeMutablePointer<UInt64>?>(nil)

  /// What is known under the engine's lock; `Knowledge` hands it out, so that its owner has the lock.
  fileprivate nonisolated(unsafe) var memory = CellMemory()

  init(name: String) { self.name = name }

  deinit {
    unsafe own.load(ordering: .acquiring).map { unsafe Counters(at: $0).deallocate() }
  }
}

/// What is known of a breaker under the engine's lock.
struct CellMemory {
  /// What was read last; nil of a healthy breaker to which this process has written nothing.
  var known: Known?
  var revision: Int64 = .min
  var agreed: AgreedPolicy?
  var marks: BucketMarks?

  /// What code declares in this process.
  var declaration: Declaration?

  struct Declaration {
    var words: String

    /// The revision since which the store has it; nil if it has yet to be written.
    var since: Int64?

    /// Whether a later declaration was found in its place.
    var isOverruled = false
  }

  /// Whether the declaration has yet to be written.
  var isUndeclared: Bool { declaration.map { $0.since == nil } ?? false }
}

extension Knowledge {
  /// What is known of a cell.
  subscript(cell: Cell) -> CellMemory {
    get { unsafe cell.memory }
    set { unsafe cell.memory = newValue }
  }
}

extension Knowledge {
  /// What a call needs to mark a bucket; nil if the policy in force has no window.
  func window(of cell: Cell) -> (length: Duration, marks: BucketMarks?)? {
    // Read by themselves, because in a short window each call needs them.
    unsafe cell.memory.agreed?.policy.window.map { (length: $0, marks: unsafe cell.memory.marks) }
  }
}

/// What healthy calls read.
extension Cell {
  @inlinable @inline(__always) var word: CellWord {
    CellWord(bits: bits.load(ordering: .acquiring))
  }

  /// Whether a success of a call that a word let through changes nothing but a counter.
  @inlinable @inline(__always) func counts(under word: CellWord) -> Bool {
    self.word.bits == word.bits && word.has(CellWord.countsOnly)
  }

  /// How long a breaker that rejects calls does so from an instant on.
  func openRemaining(at nanoseconds: Int64) -> Int64 {
    openUntil.load(ordering: .relaxed).subtractingSaturating(nanoseconds)
  }

  /// A time to wait as one of many callers is told it, so that not all of them come back at once.
  ///
  /// What the call has at hand takes the place of a random number: when it was made, and how many
  /// were rejected before it.
  func spread(_ nanoseconds: Int64, at now: Int64, after rejections: UInt64) -> Int64 {
    let jitter = jitter.load(ordering: .relaxed)
    guard jitter > 0 else { return nanoseconds }
    return Rejection.spread(
      nanoseconds, byPartsPerMillion: jitter,
      draw: Jitter.drawn(from: UInt64(bitPattern: now) ^ rejections))
  }

  /// The same for a rejection that was not decided from memory.
  func spread(_ rejection: Rejection) -> Rejection {
    let jitter = jitter.load(ordering: .relaxed)
    guard jitter > 0 else { return rejection }
    return rejection.spread(by: .init(partsPerMillion: jitter), draw: Jitter.drawn())
  }

  func isSlow(_ nanoseconds: Int64) -> Bool {
    nanoseconds >= slowAfter.load(ordering: .relaxed)
  }

  /// Whether the bucket of now is marked, as far as the coarse clock tells.
  func isMarked(at coarse: Int64) -> Bool { coarse < markedUntil.load(ordering: .relaxed) }

  /// Gives healthy calls what was read; the word last (rule of order 6).
  func show(_ known: Known) {
    openUntil.store(known.breaker.record.openUntil?.nanoseconds ?? 0, ordering: .relaxed)
    jitter.store(known.policy.jitter.partsPerMillion, ordering: .relaxed)
    slowAfter.store(known.policy.slowAfter?.inNanoseconds ?? .max, ordering: .relaxed)
    markedUntil.store(0, ordering: .relaxed)
    unsafe counters.store(known.counters?.address ?? ownAddress, ordering: .releasing)
    bits.store(known.word.bits, ordering: .releasing)
  }

  /// Makes every call ask.
  func hide() { bits.store(CellWord.unknown.bits, ordering: .releasing) }

  /// Marks the bucket of a window, so that successes can be counted in it.
  ///
  /// - Parameters:
  ///   - window: The window of the policy in force.
  ///   - marks: Where the marks of the shared counters are.
  ///   - coarse: The time on the coarse clock.
  ///   - now: The time on the boot clock, which is only read if the mark has to be written.
  func beginBucket(
    of window: Duration, marks: BucketMarks?, at coarse: Int64, _ now: () -> Instant
  ) {
    guard let address = unsafe counters.load(ordering: .acquiring) else { return }
    let left = unsafe Counters(at: address, marks: marks).beginBucket(
      ofWindow: window.inNanoseconds, at: now)
    // The coarse clock is too coarse for a bucket that is hardly longer than its steps. It also
    // stands still while the host sleeps, so it is not trusted for long.
    let isLong = left > Self.coarseStep
    let trusted = min(left, Self.longestTrust)
    markedUntil.store(isLong ? coarse + trusted : 0, ordering: .relaxed)
  }

  /// After a sleep of the host no bucket goes unmarked for longer than this.
  private static let longestTrust: Int64 = 100_000_000

  /// The longest time that the coarse clock may be behind.
  private static let coarseStep: Int64 = 10_000_000
}

/// Counting, from any thread.
extension Cell {
  @inlinable @inline(__always) func countSuccess() {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe sb_add(address.advanced(by: SB_COUNTER_SUCCESSES), 1)
    }
  }

  /// Counts a rejection, and returns a number that differs from that of any other at the same time.
  @discardableResult func countRejection() -> UInt64 {
    guard let address = unsafe counters.load(ordering: .acquiring) else { return 0 }
    let count = unsafe sb_count(address.advanced(by: SB_COUNTER_REJECTIONS))
    return UInt64(UInt(bitPattern: address)) &+ count &* 0x9E37_79B9_7F4A_7C15
  }

  /// Counts in the counter page, or else in what this process has yet to write.
  func count(_ counted: Counted) {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe Counters(at: address).add(counted)
    }
  }
}

/// What this process has counted for itself, and has yet to write.
extension Cell {
  /// The counts, which the caller writes, or gives back with `keep`.
  func takePending() -> Counted { ownCounters.map { $0.take() } ?? Counted() }

  /// The counts, left where they are.
  var pending: Counted { ownCounters.map { $0.read() } ?? Counted() }

  /// Counts what cannot be written now.
  func keep(_ pending: Counted) {
    if !pending.isZero { unsafe Counters(at: ownAddress).add(pending) }
  }

  /// Whether there are such counts, or calls that may be adding to them.
  var mayHavePending: Bool {
    guard let address = unsafe own.load(ordering: .acquiring) else { return false }
    let counts = unsafe counters.load(ordering: .relaxed)
    return unsafe counts == address || !pending.isZero
  }

  private var ownCounters: Counters? {
    unsafe own.load(ordering: .acquiring).map { unsafe Counters(at: $0) }
  }

  private var ownAddress: UnsafeMutablePointer<UInt64> {
    if let address = unsafe own.load(ordering: .acquiring) { return unsafe address }
    let made = Counters.allocate()
    let (isMine, earlier) = unsafe own.compareExchange(
      expected: nil, desired: made.address, ordering: .acquiringAndReleasing)
    guard !isMine, let earlier = unsafe earlier else { return unsafe made.address }
    made.deallocate()
    return unsafe earlier
  }
}

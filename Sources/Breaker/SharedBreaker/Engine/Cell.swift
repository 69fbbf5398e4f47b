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
  /// Unchecked because Swift does not consider an atomic pointer `Sendable`.
  @usableFromInline
  nonisolated(unsafe) let counters = unsafe Atomic<UnsafeMutablePointer<UInt64>?>(nil)

  /// Until when a breaker rejects calls from memory.
  private let rejectsUntil = Atomic<Int64>(0)

  /// By how much a wait may be lengthened before a caller is told, in parts per million.
  private let jitter = Atomic<Int64>(0)

  /// From how many nanoseconds on a call is slow.
  private let slowAfter = Atomic<Int64>(.max)

  /// Until when, on the coarse clock, the current bucket and second are known to be marked.
  private let markedUntil = Atomic<Int64>(0)

  /// Whether the policy has a budget for retries; true until it was read.
  private let budgetsRetries = Atomic<Bool>(true)

  let name: String

  /// The limit that calls are under, which `CellMemory` keeps; nil if they are under none.
  ///
  /// Unchecked for the same reason as `counters`.
  private nonisolated(unsafe) let limitInForce = unsafe Atomic<UnsafeRawPointer?>(nil)

  /// When the ramp ends that the breaker is in; 0 if it is in none.
  private let rampUntil = Atomic<Int64>(0)

  /// How many units count as having succeeded when it began.
  private let rampHeadStart = Atomic<Int64>(0)

  /// The revision at which the limit was read last.
  private let limitRevision = Atomic<Int64>(0)

  /// The counts that this process keeps for itself; created when first needed, and kept.
  ///
  /// Unchecked for the same reason as `counters`.
  private nonisolated(unsafe) let own = unsafe Atomic<UnsafeMutablePointer<UInt64>?>(nil)

  /// The part that the engine's lock guards; only `Knowledge` hands it out, so the lock is held.
  fileprivate nonisolated(unsafe) let memory: UnsafeMutablePointer<CellMemory>

  init(name: String) {
    self.name = name
    unsafe memory = .allocate(capacity: 1)
    unsafe memory.initialize(to: CellMemory())
  }

  deinit {
    unsafe memory.deinitialize(count: 1)
    unsafe memory.deallocate()
    ownCounters?.deallocate()
  }
}

/// Knowledge of a breaker that the engine's lock guards.
struct CellMemory {
  /// The breaker as last read; nil for a healthy one to which this process has written nothing.
  var known: Known?
  var revision: Int64 = .min

  /// The row of the breaker; nil if it has none.
  var row: Int64?

  /// Whether the cell is listed among those with a limit.
  var isListed = false
  var agreed: AgreedPolicy?

  /// Where all processes count; nil without such a place.
  var counters: Counters?

  /// Every limit that calls of this process have been under, because calls end where they began.
  var limits: [CellLimit] = []

  /// The policy that code declares in this process.
  var declaration: Declaration?

  struct Declaration {
    var words: String

    /// The revision at which the store got it; nil if it has yet to be written.
    var since: Int64?

    /// Whether a later declaration has taken its place.
    var isOverruled = false
  }

  /// Takes over what was read of the breaker.
  mutating func takeOver(_ read: Known, keeping: Bool) {
    known = keeping ? read : nil
    revision = read.breaker.revision
    row = read.exists ? read.breaker.id : nil
    agreed = read.breaker.agreed
    counters = read.counters
  }

  /// Whether the declaration has yet to be written.
  var isUndeclared: Bool { declaration.map { $0.since == nil } ?? false }
}

extension Knowledge {
  /// The memory of a cell; it is used where it is, because a copy counts a dozen references.
  subscript(cell: Cell) -> CellMemory {
    unsafeAddress { unsafe UnsafePointer(cell.memory) }
    unsafeMutableAddress { unsafe cell.memory }
  }
}

extension Knowledge {
  /// Where the calls of a cell are counted.
  func countersInUse(of cell: Cell) -> Counters { cell.countersInUse(shared: self[cell].counters) }
}

/// The part that healthy calls read.
extension Cell {
  @inlinable @inline(__always) var word: CellWord {
    CellWord(bits: bits.load(ordering: .acquiring))
  }

  /// Whether the success of a call that a word permitted changes nothing but a counter.
  @inlinable @inline(__always) func counts(under word: CellWord) -> Bool {
    self.word.bits == word.bits && word.has(CellWord.countsOnly)
  }

  /// How much longer, from an instant on, a breaker rejects calls.
  func rejectsFor(at nanoseconds: Int64) -> Int64 {
    rejectsUntil.load(ordering: .relaxed).subtractingSaturating(nanoseconds)
  }

  /// A wait that varies from caller to caller, so that they do not all come back at once.
  ///
  /// Instead of a random number it uses what the call has at hand: when the call was made, and how
  /// many were rejected before it.
  func spread(_ nanoseconds: Int64, at now: Int64, after rejections: UInt64) -> Int64 {
    let jitter = jitter.load(ordering: .relaxed)
    guard jitter > 0 else { return nanoseconds }
    return Rejection.spread(
      nanoseconds, byPartsPerMillion: jitter,
      draw: Jitter.drawn(from: UInt64(bitPattern: now) ^ rejections))
  }

  /// Spreads the wait of a rejection that was not decided from memory.
  func spread(_ rejection: Rejection) -> Rejection {
    let jitter = jitter.load(ordering: .relaxed)
    guard jitter > 0 else { return rejection }
    return rejection.spread(by: .init(partsPerMillion: jitter), draw: Jitter.drawn())
  }

  /// Whether the policy has a budget for retries; true until it was read.
  var mayHaveRetryBudget: Bool { budgetsRetries.load(ordering: .relaxed) }

  func isSlow(_ nanoseconds: Int64) -> Bool {
    nanoseconds >= slowAfter.load(ordering: .relaxed)
  }

  /// Whether the current bucket and second are marked, as far as the coarse clock can tell.
  func isMarked(at coarse: Int64) -> Bool { coarse < markedUntil.load(ordering: .relaxed) }

  /// Shows healthy calls what was read; the word comes last (rule of order 6).
  func show(_ known: Known) {
    rejectsUntil.store(known.rejectsUntil?.nanoseconds ?? 0, ordering: .relaxed)
    jitter.store(known.policy.jitter.partsPerMillion, ordering: .relaxed)
    slowAfter.store(known.policy.slowAfter?.inNanoseconds ?? .max, ordering: .relaxed)
    markedUntil.store(0, ordering: .relaxed)
    budgetsRetries.store(known.policy.retryBudget != nil, ordering: .relaxed)
    unsafe counters.store(known.counters?.address ?? ownAddress, ordering: .releasing)
    // Without a limit no call asks for a ramp.
    if known.limit != nil {
      rampUntil.store(known.breaker.ramp?.nanoseconds ?? 0, ordering: .relaxed)
      rampHeadStart.store(known.breaker.record.rampHeadStart, ordering: .relaxed)
    }
    show(known.limit.map(kept), at: known.breaker.revision)
    bits.store(known.word.bits, ordering: .releasing)
  }

  /// Makes every call look the breaker up.
  func hide() { bits.store(CellWord.unknown.bits, ordering: .releasing) }

  /// Marks the current bucket of a window, and the current second under a budget for retries, so that successes can be
  /// counted in them.
  ///
  /// - Parameters:
  ///   - policy: The policy in force.
  ///   - counters: Where the calls are counted.
  ///   - coarse: The time on the coarse clock.
  ///   - now: The time on the boot clock, which is only read if a mark has to be written.
  func beginBuckets(
    for policy: BreakerPolicy, in counters: Counters, at coarse: Int64, _ now: () -> Instant
  ) {
    let bucket = policy.window.map { counters.beginBucket(ofWindow: $0.inNanoseconds, at: now) }
    let second = policy.retryBudget.map { _ in counters.beginSecond(at: now) }
    let left = min(bucket ?? .max, second ?? .max)
    // The coarse clock cannot be used for a bucket that is hardly longer than its steps. It also
    // stands still while the host sleeps, so it is not trusted for long.
    let isLong = left > Self.coarseStep
    let trusted = min(left, Self.longestTrust)
    markedUntil.store(isLong ? coarse + trusted : 0, ordering: .relaxed)
  }

  /// After the host has slept, no bucket stays unmarked for longer than this.
  private static let longestTrust: Int64 = 100_000_000

  /// The longest time that the coarse clock may be behind.
  private static let coarseStep: Int64 = 10_000_000
}

/// The limit of the calls.
extension Cell {
  /// The limit that calls are under, and the terms of it; nil if they are under none.
  var limit: (limit: CellLimit, terms: SlotTerms)? { withLimit { ($0, $1) } }

  /// Uses the limit that calls are under, and the terms of it; nil if they are under none.
  ///
  /// A cell keeps all its limits, so a call need not count a reference to the one that it uses.
  @inline(__always) func withLimit<Result>(
    _ body: (CellLimit, SlotTerms) -> Result?
  ) -> Result? {
    // The revision first: an earlier one with a later limit does no harm.
    let revision = limitRevision.load(ordering: .acquiring)
    let rampUntil = rampUntil.load(ordering: .relaxed)
    let ramp = rampUntil == 0 ? nil : Instant(nanoseconds: rampUntil)
    let headStart = rampHeadStart.load(ordering: .relaxed)
    return withLimitInForce {
      body($0, $0.terms(at: revision, rampUntil: ramp, headStart: headStart))
    }
  }

  @inline(__always) private func withLimitInForce<Result>(
    _ body: (CellLimit) -> Result?
  ) -> Result? {
    guard let address = unsafe limitInForce.load(ordering: .acquiring) else { return nil }
    return unsafe Unmanaged<CellLimit>.fromOpaque(address)._withUnsafeGuaranteedRef(body)
  }

  /// Takes a free slot for an ordinary call of one unit; nil if that takes more than looking.
  @inline(__always) func takeSlot() -> HeldSlot? { withLimitInForce { $0.takeSlot() } }

  /// Whether one of some calls is under way under the limit in force.
  @inline(never) func isUnderWay(_ outers: OuterCalls) -> Bool {
    withLimitInForce { outers.call(on: $0.slots) } != nil
  }

  /// Whether a call is under the limit in force, and its end frees a slot for which no caller
  /// waits.
  @inline(__always) func endsAlone(_ held: HeldSlot) -> Bool {
    withLimitInForce { $0.endsAlone(held) } ?? false
  }

  /// Ends a call under the limit in force; false if it has ended before, or began under another one.
  @inline(__always) func endUnderLimitInForce(_ held: HeldSlot) -> Bool {
    withLimitInForce { $0.end(held) } ?? false
  }

  /// The limit under which a call began; nil if this cell has never had it.
  ///
  /// Under the engine's lock, unless it is the one in force.
  fileprivate func limit(of held: HeldSlot) -> CellLimit? {
    unsafe memory.pointee.limits.first { $0.slots.number == held.block }
  }

  /// The kept object of a limit, which is this one if none is kept yet; under the engine's lock.
  fileprivate func kept(_ limit: CellLimit) -> CellLimit {
    let isSame = { (known: CellLimit) in known.isSame(as: limit) }
    if let known = unsafe memory.pointee.limits.first(where: isSame) { return known }
    unsafe memory.pointee.limits.append(limit)
    return limit
  }

  private func show(_ limit: CellLimit?, at revision: Int64) {
    let address = unsafe limit.map {
      unsafe UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque())
    }
    unsafe limitInForce.store(address, ordering: .releasing)
    limitRevision.store(revision, ordering: .releasing)
  }
}

extension Knowledge {
  /// The limit under which a call began; nil if the cell has never had it.
  func limit(of held: HeldSlot, on cell: Cell) -> CellLimit? { cell.limit(of: held) }

  /// The limit under which a call of any breaker began; nil if this process has never had it.
  func limit(of held: HeldSlot) -> CellLimit? {
    for cell in limited {
      if let limit = limit(of: held, on: cell) { return limit }
    }
    return nil
  }

  /// The cell's own object of a limit, which is this one if it has none yet.
  func kept(_ limit: CellLimit, by cell: Cell) -> CellLimit { cell.kept(limit) }
}

/// Counting, from any thread.
extension Cell {
  @inlinable @inline(__always) func countSuccess() {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe sb_add(address.advanced(by: SB_COUNTER_SUCCESSES), 1)
    }
  }

  /// Counts a rejection, and returns a number that no other rejection at the same time gets.
  @discardableResult func countRejection(isHeld: Bool) -> UInt64 {
    guard let address = unsafe counters.load(ordering: .acquiring) else { return 0 }
    let word = isHeld ? SB_COUNTER_HELD : SB_COUNTER_REJECTIONS
    let count = unsafe sb_count(address.advanced(by: word))
    return UInt64(UInt(bitPattern: address)) &+ count &* 0x9E37_79B9_7F4A_7C15
  }

  /// Counts in the counter page, or else among the counts that this process has yet to write.
  func count(_ counted: Counted) {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe Counters.add(counted, at: address)
    }
  }
}

/// Counts that this process keeps for itself until they are written.
extension Cell {
  /// Takes the counts, which the caller writes or gives back with `keep`.
  func takePending() -> Counted { ownCounters.map { $0.take() } ?? Counted() }

  /// The counts, which stay where they are.
  var pending: Counted { ownCounters.map { $0.read() } ?? Counted() }

  /// Counts again what could not be written.
  func keep(_ pending: Counted) {
    if !pending.isZero { unsafe Counters.add(pending, at: ownAddress) }
  }

  /// Whether there are such counts, or calls that may be adding some.
  var mayHavePending: Bool {
    guard let address = unsafe own.load(ordering: .acquiring) else { return false }
    let counts = unsafe counters.load(ordering: .relaxed)
    return unsafe counts == address || !pending.isZero
  }

  private var ownCounters: Counters? {
    unsafe own.load(ordering: .acquiring).map { unsafe Counters(allocatedAt: $0) }
  }

  /// Where calls are counted: in the shared counters, if these are in use, or in this process's own.
  fileprivate func countersInUse(shared: Counters?) -> Counters {
    let address = unsafe counters.load(ordering: .acquiring)
    if let shared, unsafe shared.address == address { return shared }
    return unsafe Counters(allocatedAt: ownAddress)
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

/// All that a healthy call has to know of its breaker, in one word.
///
/// It also stands for the permit of such a call: the outcome is judged if the word is still the one
/// that permitted the call.
@frozen @usableFromInline struct CellWord: Sendable, Hashable {
  @usableFromInline var bits: UInt64

  /// Nothing is known.
  static var unknown: CellWord { CellWord(bits: 0) }

  /// Calls are permitted, and their outcomes count.
  @inlinable static var permits: UInt64 { 1 }

  /// A success changes nothing but a counter.
  @inlinable static var countsOnly: UInt64 { 2 }

  /// Calls have to be timed.
  @inlinable static var measures: UInt64 { 4 }

  /// Successes are counted in buckets of time or in seconds, each of which has to be marked when it begins.
  @inlinable static var marks: UInt64 { 8 }

  /// Calls are rejected until a known instant.
  static let rejects: UInt64 = 16

  /// Beside `rejects`, a hold is the cause: no call is permitted then that could have to mark a bucket.
  static let isHeld: UInt64 = marks

  /// Calls are permitted if there is room for them, and their outcomes count.
  static let permitsWithinLimit: UInt64 = 32

  private static let forkShift: UInt64 = 6
  private static let forkMask: UInt64 = 0x1FFF
  private static let rowShift: UInt64 = 19
  private static let rowMask: UInt64 = 0xFFF
  private static let generationShift: UInt64 = 31

  /// The latest generation that fits into a word; later ones are looked up at each call.
  static let latestGeneration: Int64 = 1 << 32

  /// Whether a word can distinguish this process from all that it was forked from; if not, each call
  /// is looked up.
  static var knowsThisFork: Bool { ForkGuard.depth <= forkMask }

  @inlinable @inline(__always) init(bits: UInt64) { self.bits = bits }

  init(flags: UInt64, of breaker: StoredBreaker) {
    bits =
      flags | min(ForkGuard.depth, Self.forkMask) << Self.forkShift
      | Self.mark(of: breaker) << Self.rowShift
      | UInt64(bitPattern: breaker.record.generation) << Self.generationShift
  }

  /// A few bits that distinguish one row from another, and from that of another store; 0 for no row.
  private static func mark(of breaker: StoredBreaker) -> UInt64 {
    if breaker.id == 0 { return 0 }
    let mixed =
      UInt64(bitPattern: breaker.lineage) &* 0x9E37_79B9_7F4A_7C15
      &+ UInt64(bitPattern: breaker.id)
    return mixed % rowMask + 1
  }

  @inlinable @inline(__always) func has(_ flag: UInt64) -> Bool { bits & flag != 0 }

  /// Whether calls are permitted if there is room for them, and need not be timed.
  var permitsUntimedWithinLimit: Bool {
    bits & (Self.permitsWithinLimit | Self.measures) == Self.permitsWithinLimit
  }

  var generation: Int64 { Int64(bits >> Self.generationShift) }

  /// Whether it was made in this process, and not in one that it was forked from.
  var isOwn: Bool { bits >> Self.forkShift & Self.forkMask == ForkGuard.depth }

  /// Whether it belongs to this row of this store, or to no row, as far as its few bits can tell.
  func mayBe(of breaker: StoredBreaker) -> Bool {
    let known = bits >> Self.rowShift & Self.rowMask
    let row = Self.mark(of: breaker)
    return known == 0 || row == 0 || known == row
  }
}

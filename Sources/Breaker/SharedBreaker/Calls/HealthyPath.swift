internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Synchronization

/// The answer of the healthy path to a call.
@frozen @usableFromInline package struct HealthyCall: Sendable {
  /// The word of the breaker, which also says whether it permits the call; 0 if it may not be current.
  @usableFromInline package let word: UInt64

  /// When a permitted call began, on the boot clock; 0 if the policy does not measure calls.
  @usableFromInline package let start: Int64

  @inlinable package init(word: UInt64, start: Int64) {
    self.word = word
    self.start = start
  }

  @inlinable package var isPermitted: Bool { CellWord(bits: word).has(CellWord.permits) }

  /// Whether the policy of its breaker looks at times.
  @inlinable package var isTimed: Bool {
    CellWord(bits: word).has(CellWord.measures | CellWord.marks)
  }
}

/// The path of a healthy call: a few loads and one addition, no lock and no system call.
///
/// Rare work is in separate functions, so that the common path saves no registers. The fewer
/// instructions a call has, the sooner the processor reaches the next one's memory.
///
/// The inlinable functions are compiled into the C library, where a function call would take a fifth
/// of the time. Programs in Swift call `enterHealthy` and `endHealthy`.
extension Breaker {
  @usableFromInline func enterHealthy() -> HealthyCall {
    // The clock comes first: what is loaded before would have to be saved across its call.
    permitHealthy(inSecond: engine.second)
  }

  @usableFromInline func endHealthy(_ call: HealthyCall) {
    let word = CellWord(bits: call.word)
    guard engine.isCurrent, cell.counts(under: word) else { return endWithCare(call) }
    if word.has(CellWord.measures | CellWord.marks) { return endTimed(call) }
    cell.countSuccess()
  }

  @inline(never) private func endTimed(_ call: HealthyCall) {
    let word = CellWord(bits: call.word)
    if !engine.countTimed(cell, since: call.start, word) { end(call, .success) }
  }

  @inline(never) private func endWithCare(_ call: HealthyCall) { end(call, .success) }

  /// Permits a call if the breaker is known to be healthy, in a second of the store's clock.
  @inlinable @inline(__always)
  package func permitHealthy(inSecond second: Int64) -> HealthyCall {
    guard !engine.isRoundDue(inSecond: second), engine.isCurrent else {
      return HealthyCall(word: 0, start: 0)
    }
    let word = cell.word
    if word.has(CellWord.measures) { return measuredCall(word) }
    return HealthyCall(word: word.bits, start: 0)
  }

  @inline(never) @usableFromInline func measuredCall(_ word: CellWord) -> HealthyCall {
    let isPermitted = word.has(CellWord.permits)
    return HealthyCall(word: word.bits, start: isPermitted ? engine.measuringNanoseconds : 0)
  }

  /// Counts a success that changes nothing else; false if it has to be reported.
  @inlinable @inline(__always)
  package func countHealthy(_ call: HealthyCall) -> Bool {
    engine.isCurrent
      && engine.countSuccess(of: cell, since: call.start, under: CellWord(bits: call.word))
  }
}

extension Engine {
  /// Counts a success that changes nothing else; false if it has to be reported.
  ///
  /// The caller has checked that the cells are current.
  @inlinable @inline(__always)
  func countSuccess(of cell: Cell, since start: Int64, under word: CellWord) -> Bool {
    guard cell.counts(under: word) else { return false }
    if word.has(CellWord.measures | CellWord.marks) {
      return countTimed(cell, since: start, word)
    }
    cell.countSuccess()
    return true
  }

  /// Counts a success for a policy that looks at times.
  @inline(never) @usableFromInline
  func countTimed(_ cell: Cell, since start: Int64, _ word: CellWord) -> Bool {
    if word.has(CellWord.measures), cell.isSlow(measuringNanoseconds - start) { return false }
    countNow(cell, word)
    return true
  }

  /// Counts a success, in the current bucket if the policy has buckets.
  func countNow(_ cell: Cell, _ word: CellWord) {
    if word.has(CellWord.marks), !cell.isMarked(at: coarseNanoseconds) { beginBucket(of: cell) }
    cell.countSuccess()
  }

  /// Rejects a call from memory; nil if only the store can decide.
  @inline(__always) func rejectFromMemory(_ cell: Cell) -> Rejection? {
    waitFromMemory(cell).map { .fromMemory(for: $0.nanoseconds, isHeld: $0.isHeld) }
  }

  /// Rejects a call from memory, and returns how many nanoseconds its caller should wait, and whether a hold is the
  /// cause; nil if only the store can decide.
  @inline(__always) func waitFromMemory(_ cell: Cell) -> (nanoseconds: Int64, isHeld: Bool)? {
    let word = cell.word
    guard isCurrent, word.has(CellWord.rejects) else { return nil }
    let isHeld = word.has(CellWord.isHeld)
    let now = bootNanoseconds
    let remaining = cell.rejectsFor(at: now)
    guard remaining > 0, now < nextRoundOnBootClock.load(ordering: .relaxed) else { return nil }
    let count = cell.countRejection(isHeld: isHeld)
    return (cell.spread(remaining, at: now, after: count), isHeld)
  }

  /// Marks the current bucket and second, so that successes can be counted in them.
  func beginBucket(of cell: Cell) {
    let coarse = coarseNanoseconds
    // Rule of order 3: the user's clock is read before the lock is taken.
    let usersNow = isSystemClock ? nil : clock.instant
    look { state in
      guard let policy = state.knowledge[cell].agreed?.policy else { return }
      let counters = state.knowledge.countersInUse(of: cell)
      cell.beginBuckets(for: policy, in: counters, at: coarse) {
        usersNow ?? Instant(nanoseconds: sb_boot_nanoseconds())
      }
    }
  }

  var coarseNanoseconds: Int64 {
    isSystemClock ? sb_coarse_nanoseconds() : coarseNanosecondsOfOtherClock()
  }

  /// The clock that measures how long a call takes.
  @usableFromInline var measuringNanoseconds: Int64 {
    isSystemClock ? sb_own_boot_nanoseconds() : nanosecondsOfOtherClock()
  }

  var bootNanoseconds: Int64 {
    isSystemClock ? sb_boot_nanoseconds() : nanosecondsOfOtherClock()
  }

  @inline(never) private func coarseNanosecondsOfOtherClock() -> Int64 { clock.coarseNanoseconds }

  @inline(never) private func nanosecondsOfOtherClock() -> Int64 { clock.instant.nanoseconds }
}

extension Rejection {
  /// The rejection of a breaker that no operator has touched: an open one, or a closed one that is held.
  @inline(__always) static func fromMemory(for nanoseconds: Int64, isHeld: Bool) -> Rejection {
    Rejection(
      state: isHeld ? .closed : .open, mode: .automatic, retryAfter: .nanoseconds(nanoseconds),
      cause: isHeld ? .held : .open)
  }
}

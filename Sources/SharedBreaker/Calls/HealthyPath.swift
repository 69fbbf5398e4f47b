internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Synchronization

/// A call that was permitted on the healthy path.
@usableFromInline package struct HealthyCall: Sendable {
  /// The word that permitted the call; 0 if it was not permitted.
  @usableFromInline package let word: UInt64

  /// When the call began, on the boot clock; 0 if the policy does not measure calls.
  @usableFromInline package let start: Int64

  @usableFromInline package init(word: UInt64, start: Int64) {
    self.word = word
    self.start = start
  }

  @inlinable package var isPermitted: Bool { word != 0 }
}

/// The path of a healthy call: a few loads and one addition, no lock and no system call.
///
/// What few calls need is in functions of its own, so that the others save no registers. The fewer
/// instructions a call has, the sooner the processor reaches the next one's memory.
extension Breaker {
  @usableFromInline package func enterHealthy() -> HealthyCall {
    // The clock first: what is loaded before it would have to be kept over its call.
    guard !engine.isRoundDue, engine.isCurrent else { return HealthyCall(word: 0, start: 0) }
    let word = cell.word
    guard word.has(CellWord.permits) else { return HealthyCall(word: 0, start: 0) }
    if word.has(CellWord.measures) { return measuredCall(word) }
    return HealthyCall(word: word.bits, start: 0)
  }

  @inline(never) private func measuredCall(_ word: CellWord) -> HealthyCall {
    HealthyCall(word: word.bits, start: engine.bootNanoseconds)
  }

  @usableFromInline func endHealthy(_ call: HealthyCall) {
    let word = CellWord(bits: call.word)
    guard engine.isCurrent, cell.counts(under: word) else { return endWithCare(call) }
    if word.has(CellWord.measures | CellWord.marks) { return endTimed(call) }
    cell.countSuccess()
  }

  @inline(never) private func endTimed(_ call: HealthyCall) {
    if engine.prepareToCount(cell, since: call.start, CellWord(bits: call.word)) {
      cell.countSuccess()
    } else {
      end(call, .success)
    }
  }

  @inline(never) private func endWithCare(_ call: HealthyCall) { end(call, .success) }

  /// Counts a success that changes nothing else; false if it has to be reported.
  @inline(__always)
  package func countHealthy(_ call: HealthyCall) -> Bool {
    engine.isCurrent
      && engine.countSuccess(of: cell, since: call.start, under: CellWord(bits: call.word))
  }

  /// Reports the outcome of a call that does not end as healthy calls do.
  @inline(never) @usableFromInline func end(_ call: HealthyCall, _ outcome: CallOutcome) {
    end(Ticket(call), outcome)
  }
}

extension Engine {
  /// Counts a success that changes nothing else; false if it has to be reported.
  ///
  /// The caller has checked that the cells are current.
  @inline(__always)
  func countSuccess(of cell: Cell, since start: Int64, under word: CellWord) -> Bool {
    guard cell.counts(under: word) else { return false }
    if word.has(CellWord.measures | CellWord.marks), !prepareToCount(cell, since: start, word) {
      return false
    }
    cell.countSuccess()
    return true
  }

  @inline(never)
  fileprivate func prepareToCount(_ cell: Cell, since start: Int64, _ word: CellWord) -> Bool {
    if word.has(CellWord.measures), cell.isSlow(bootNanoseconds - start) { return false }
    if word.has(CellWord.marks), !cell.isMarked(at: coarseNanoseconds) { beginBucket(of: cell) }
    return true
  }

  /// Rejects a call from memory; nil if only the store can decide.
  @inline(__always) func rejectFromMemory(_ cell: Cell) -> Rejection? {
    guard isCurrent, cell.word.has(CellWord.rejects) else { return nil }
    let now = bootNanoseconds
    let remaining = cell.openRemaining(at: now)
    guard remaining > 0, now < nextRoundOnBootClock.load(ordering: .relaxed) else { return nil }
    cell.countRejection()
    return Rejection(state: .open, mode: .automatic, retryAfter: .nanoseconds(remaining))
  }

  /// Marks the current bucket, so that successes can be counted in it.
  func beginBucket(of cell: Cell) {
    let coarse = coarseNanoseconds
    look { state in
      guard let window = state.knowledge.window(of: cell) else { return }
      cell.beginBucket(of: window.length, marks: window.marks, at: coarse) { clock.instant }
    }
  }

  var coarseNanoseconds: Int64 {
    isSystemClock ? sb_coarse_nanoseconds() : coarseNanosecondsOfOtherClock()
  }

  var bootNanoseconds: Int64 {
    isSystemClock ? sb_boot_nanoseconds() : nanosecondsOfOtherClock()
  }

  @inline(never) private func coarseNanosecondsOfOtherClock() -> Int64 { clock.coarseNanoseconds }

  @inline(never) private func nanosecondsOfOtherClock() -> Int64 { clock.instant.nanoseconds }
}

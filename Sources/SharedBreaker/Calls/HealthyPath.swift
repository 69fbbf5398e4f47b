internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Synchronization

/// A call that was let through on the healthy path.
@usableFromInline struct HealthyCall: Sendable {
  /// The word that let it through; 0 if none did.
  @usableFromInline let word: UInt64

  /// When it began, on the boot clock, if the policy looks at how long calls take.
  @usableFromInline let start: Int64

  @usableFromInline init(word: UInt64, start: Int64) {
    self.word = word
    self.start = start
  }

  @inlinable var isPermitted: Bool { word != 0 }
}

/// The way of a healthy call: a few loads and one addition, no lock and no system call.
extension Breaker {
  @usableFromInline func enterHealthy() -> HealthyCall {
    guard engine.isCurrent, !engine.isRoundDue else { return HealthyCall(word: 0, start: 0) }
    let word = cell.word
    guard word.has(CellWord.permits) else { return HealthyCall(word: 0, start: 0) }
    let start = word.has(CellWord.measures) ? engine.bootNanoseconds : 0
    return HealthyCall(word: word.bits, start: start)
  }

  @usableFromInline func endHealthy(_ call: HealthyCall) {
    let word = CellWord(bits: call.word)
    guard engine.isCurrent, engine.countSuccess(of: cell, since: call.start, under: word) else {
      return end(call, .success)
    }
  }

  /// Takes the outcome of a call that does not end as healthy calls do.
  @inline(never) @usableFromInline func end(_ call: HealthyCall, _ outcome: Outcome) {
    end(Call(call), outcome)
  }
}

extension Engine {
  /// Counts a success that changes nothing else; false if it has to be reported.
  ///
  /// What is known of the breaker has to be current.
  @inline(__always)
  func countSuccess(of cell: Cell, since start: Int64, under word: CellWord) -> Bool {
    guard cell.word == word, word.has(CellWord.countsOnly) else { return false }
    if word.has(CellWord.measures | CellWord.marks), !prepareToCount(cell, since: start, word) {
      return false
    }
    cell.countSuccess()
    return true
  }

  @inline(never)
  private func prepareToCount(_ cell: Cell, since start: Int64, _ word: CellWord) -> Bool {
    if word.has(CellWord.measures) {
      let slowAfter = cell.slowAfter.load(ordering: .relaxed)
      if bootNanoseconds - start >= slowAfter { return false }
    }
    if word.has(CellWord.marks), coarseNanoseconds >= cell.markedUntil.load(ordering: .relaxed) {
      beginBucket(of: cell)
    }
    return true
  }

  /// Rejects a call from memory; nil if that cannot be said without the store.
  @inline(__always) func rejectFromMemory(_ cell: Cell) -> Rejection? {
    guard isCurrent, cell.word.has(CellWord.rejects) else { return nil }
    let now = bootNanoseconds
    let remaining = cell.openUntil.load(ordering: .relaxed).subtractingSaturating(now)
    guard remaining > 0, now < nextRoundOnBootClock.load(ordering: .relaxed) else { return nil }
    cell.countRejection()
    return Rejection(state: .open, mode: .automatic, retryAfter: .nanoseconds(remaining))
  }

  /// Marks the bucket of now, so that successes can be counted in it.
  func beginBucket(of cell: Cell) {
    let coarse = coarseNanoseconds
    cellsLock.withLock {
      let left = cell.beginBucket { clock.instant }
      // The coarse clock is too coarse for a bucket that is hardly longer than its steps. It also
      // stands still while the host sleeps, so it is not trusted for long.
      let isLong = left > Self.coarseStep
      let trusted = min(left, Self.longestTrust)
      cell.markedUntil.store(isLong ? coarse + trusted : 0, ordering: .relaxed)
    }
  }

  /// After a sleep of the host no bucket goes unmarked for longer than this.
  private static let longestTrust: Int64 = 100_000_000

  /// The longest time that the coarse clock may be behind.
  private static let coarseStep: Int64 = 10_000_000

  var coarseNanoseconds: Int64 {
    isSystemClock ? sb_coarse_nanoseconds() : coarseNanosecondsOfOtherClock()
  }

  var bootNanoseconds: Int64 {
    isSystemClock ? sb_boot_nanoseconds() : nanosecondsOfOtherClock()
  }

  @inline(never) private func coarseNanosecondsOfOtherClock() -> Int64 { clock.coarseNanoseconds }

  @inline(never) private func nanosecondsOfOtherClock() -> Int64 { clock.instant.nanoseconds }
}

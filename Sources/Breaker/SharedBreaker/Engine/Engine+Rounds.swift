internal import BreakerStore
public import CHost
public import Synchronization

/// Work that is done once a second, by a call and not by a thread.
extension Engine {
  /// Whether the next call has to do the rounds.
  @inlinable @inline(__always) func isRoundDue(inSecond second: Int64) -> Bool {
    second != secondOfRound.load(ordering: .relaxed)
  }

  /// The second of the wall clock: of all clocks, reading it adds least to a healthy call.
  ///
  /// It is only compared with that of the last round, so the clock may be set.
  @inlinable @inline(__always) var second: Int64 {
    isSystemClock ? Breaker.systemSecond : secondOfOtherClock()
  }

  @inline(never) @usableFromInline
  func secondOfOtherClock() -> Int64 { clock.wallTime.millisecondsSince1970 / 1_000 }

  /// Checks the file and writes what is pending, in the first call of each second.
  func doRounds() {
    let now = second
    let boot = bootNanoseconds
    let due = nextRoundOnBootClock.load(ordering: .relaxed)
    guard now != secondOfRound.load(ordering: .relaxed) || boot >= due else { return }
    let isMine = nextRoundOnBootClock.compareExchange(
      expected: due, desired: boot + Self.roundNanoseconds, ordering: .relaxed
    ).exchanged
    guard isMine else { return }
    secondOfRound.store(now, ordering: .relaxed)
    // The call that tries a store that failed checks the file as well.
    guard isAvailable else { return }
    do throws(StoreError) {
      try waiting { () throws(StoreError) in try storage.checkIdentity() }
    } catch {
      if error.isInterrupted { letRoundBeDue() }
      failed(error)
      return
    }
    do throws(StoreError) {
      try waiting(.brief) { () throws(StoreError) in
        try writeUnwrittenProbes()
        try writePending()
      }
    } catch {
      // It can wait. A call that needs the store will find out what is wrong with it.
    }
    update { $0.outbox.forgetWritten(by: $0.knowledge) }
    lookAfterLimits()
  }

  /// Lets the next call that may wait do a round before anything else.
  func letRoundBeDue() { secondOfRound.store(.min, ordering: .relaxed) }

  static let roundNanoseconds: Int64 = 1_000_000_000
}

extension Breaker {
  /// The second of the system's wall clock, which stores use unless their options name another clock.
  @inlinable @inline(__always) package static var systemSecond: Int64 { sb_second() }
}

/// Writing what this process has not written yet.
extension Engine {
  /// Writes everything that is left, and tries the store again if it failed.
  func flush(wait: Wait = .usual) throws(StoreError) {
    guard hasToWrite else { return }
    try waiting(wait) { () throws(StoreError) in
      if !isAvailable { try comeBack() }
      try writeUnwrittenProbes()
      try writePending()
    }
  }

  private var hasToWrite: Bool {
    look { state in
      state.unwrittenProbes.first != nil
        || state.outbox.cells.contains {
          state.knowledge[$0].isUndeclared || !$0.pending.isZero
        }
    }
  }

  /// Writes the counts that healthy calls have left in memory, and policies that could not be
  /// declared.
  ///
  /// - Throws: The error that prevented some of it from being written; that remains to be written.
  private func writePending() throws(StoreError) {
    var withoutRoom: StoreError?
    for cell in look({ $0.outbox.cells }) {
      let isUndeclared = look { $0.knowledge[cell].isUndeclared }
      guard isUndeclared || !cell.pending.isZero else { continue }
      // A breaker that the store has no room for asks again at its own next call.
      if let error = reasonAlone(cell) {
        withoutRoom = error
        continue
      }
      do throws(StoreError) {
        _ = try step(cell) { _ in }
      } catch {
        guard error.kind == .tooManyBreakers else { throw error }
        failed(error, of: cell)
        withoutRoom = error
      }
    }
    if let withoutRoom { throw withoutRoom }
  }

  /// Writes how probes went that ended without the store, which frees their slots.
  ///
  /// - Throws: The error that prevented one from being written; it and those after it remain to be
  ///   written.
  func writeUnwrittenProbes() throws(StoreError) {
    while let probe = look({ $0.unwrittenProbes.first }) {
      // The child of a fork leaves those that it has inherited to its parent.
      if probe.report.ticket.isOwn { _ = try acceptInStore(probe.report, of: probe.cell) }
      update { $0.unwrittenProbes.remove(probe) }
    }
  }
}

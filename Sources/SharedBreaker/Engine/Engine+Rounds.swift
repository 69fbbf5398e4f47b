internal import BreakerStore
public import CHost
public import Synchronization

/// Work that is done once a second, without a thread of its own.
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
    // Whoever tries a store that failed checks it as well.
    guard isAvailable else { return }
    do throws(StoreError) {
      try waiting { () throws(StoreError) in try storage.checkIdentity() }
    } catch {
      failed(error)
      return
    }
    do throws(StoreError) {
      try waiting(.brief) { () throws(StoreError) in
        try writeUnwrittenProbes()
        try writePending()
      }
    } catch {
      // It can wait; a call that needs the store will find out what is wrong with it.
    }
    update { $0.outbox.forgetWritten(by: $0.knowledge) }
  }

  private static let roundNanoseconds: Int64 = 1_000_000_000

  /// Writes what healthy calls have left in memory, and what could not be declared.
  ///
  /// - Throws: What kept some of it from being written; that remains to be written.
  func writePending() throws(StoreError) {
    var withoutRoom: StoreError?
    for cell in look({ $0.outbox.cells }) {
      let isUndeclared = look { $0.knowledge[cell].isUndeclared }
      guard isUndeclared || !cell.pending.isZero else { continue }
      // One that the store has no room for asks for it at its own next call.
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
}

extension Breaker {
  /// The second of the wall clock of the system, which is the clock of every store that names no other.
  @inlinable @inline(__always) package static var systemSecond: Int64 { sb_second() }
}

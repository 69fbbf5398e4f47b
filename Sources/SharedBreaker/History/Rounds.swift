internal import BreakerStore
internal import Synchronization

/// What has to be done once a second, without a thread of its own.
extension Engine {
  /// Whether the next call has to make the rounds.
  var isRoundDue: Bool { coarseNanoseconds >= nextRound.load(ordering: .relaxed) }

  /// Once a second, by whichever call comes first: looks after the file and writes what is pending.
  func doRounds() {
    let now = coarseNanoseconds
    let due = nextRound.load(ordering: .relaxed)
    let boot = bootNanoseconds
    guard now >= due || boot >= nextRoundOnBootClock.load(ordering: .relaxed) else { return }
    let isMine = nextRound.compareExchange(
      expected: due, desired: now + Self.roundNanoseconds, ordering: .relaxed
    ).exchanged
    guard isMine else { return }
    nextRoundOnBootClock.store(boot + Self.roundNanoseconds, ordering: .relaxed)
    storage.checkIdentity()
    if !isUnavailable.load(ordering: .relaxed) { writePending(wait: .brief) }
  }

  private static let roundNanoseconds: Int64 = 1_000_000_000
}

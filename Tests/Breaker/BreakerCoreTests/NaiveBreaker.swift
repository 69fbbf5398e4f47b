@testable import BreakerCore

/// A breaker that remembers everything that ever happened and works out the rest from that.
///
/// It is deliberately slow and simple, and it shares no rule with the machine that it checks: it
/// has no counter, no bucket and no truncated list. Times are nanoseconds on the boot clock.
struct NaiveBreaker {
  /// The end of a call that the breaker permitted in the closed state.
  struct Call {
    var at: Int
    var hasFailed: Bool
    var isSlow: Bool
    var reporter: ProcessIdentity
  }

  struct Lease {
    var id: Int64
    var generation: Int64
    var owner: ProcessIdentity
    var began: Int
    var deadline: Int
  }

  enum Fact {
    case called(Call)
    case probeGranted(Lease)

    /// A call goes first after a hold.
    case firstGranted(Lease)
    case heldBack(Hold)

    /// A call was told to wait, but not for how long.
    case askedUnnamed

    /// A call succeeded or failed while no hold was known.
    case answered

    /// A hold was over for good.
    case holdOver(at: Int, isHung: Bool)

    /// A hold was ended by hand.
    case holdEnded(at: Int)
    case leaseRenewed(Int64, until: Int)
    case leaseEnded(Int64)
    case probeSucceeded
    case probeFailed

    /// A probe that decided nothing.
    case probeIgnored

    /// A probe of the round that was lost with its process.
    case probeLost(began: Int, noticed: Int)

    /// How long a probe took that succeeded, whether or not it still counted.
    case probeTook(Int)

    /// How long a probe took that succeeded after its time was over.
    case probeTookTooLong(Int)
    case opened(at: Int, until: Int, from: BreakerState, isNamed: Bool)
    case extended(until: Int)
    case recovered(at: Int, until: Int)
    case halfOpened
    case suspected(at: Int)
    case acquitted(at: Int)
    case closed(at: Int)
    case reset(at: Int)
    case modeSet(BreakerMode, until: Int?)
    case outageBegan(at: Int)
    case counted(WritableKeyPath<BreakerTotals, Int64>)
  }

  var policy: BreakerPolicy
  var facts: [Fact] = []

  /// The events of the current step, as the history shows them.
  var arrows: [String] = []

  init(policy: BreakerPolicy) { self.policy = policy }
}

/// Conclusions from the facts.
extension NaiveBreaker {
  var state: BreakerState {
    for fact in facts.reversed() {
      switch fact {
      case .opened: return .open
      case .halfOpened, .suspected: return .halfOpen
      case .closed, .acquitted, .reset: return .closed
      default: continue
      }
    }
    return .closed
  }

  var generation: Int64 { generation(ofFirst: facts.count) }

  func generation(ofFirst count: Int) -> Int64 {
    var generation: Int64 = 1
    for fact in facts[..<count] {
      switch fact {
      case .opened, .halfOpened, .suspected, .acquitted, .closed, .reset: generation += 1
      case .holdEnded: generation += 1
      case .heldBack(let hold) where hold.isFresh: generation += 1
      default: continue
      }
    }
    return generation
  }

  /// The generation that the latest change of the state began.
  var generationOfState: Int64 {
    let latest = facts.lastIndex { fact in
      switch fact {
      case .opened, .halfOpened, .suspected, .acquitted, .closed, .reset: true
      default: false
      }
    }
    return latest.map { generation(ofFirst: $0 + 1) } ?? 1
  }

  var trips: Int64 {
    Int64(facts.count { if case .opened = $0 { true } else { false } })
  }

  var totals: BreakerTotals {
    var totals = BreakerTotals()
    for case .counted(let kind) in facts { totals[keyPath: kind] += 1 }
    return totals
  }

  /// When the next probe may begin, after some of this round were lost with no outcome since.
  ///
  /// The first loss holds no probe back, and neither do those that were noticed with it, or that began
  /// before an earlier one let them.
  var nextProbe: Int? {
    var row: (firstNoticed: Int, next: Int)?
    for fact in trial {
      switch fact {
      case .probeSucceeded, .probeFailed, .probeIgnored: row = nil
      case .probeLost(let began, let noticed):
        guard let known = row else {
          row = (noticed, noticed)
          continue
        }
        if noticed > known.firstNoticed, began >= known.next {
          row?.next = began + nanoseconds(policy.openFor)
        }
      default: continue
      }
    }
    return row?.next
  }

  var openUntil: Int? {
    if state == .halfOpen { return nextProbe }
    guard state == .open else { return nil }
    for fact in facts.reversed() {
      switch fact {
      case .opened(_, let until, _, _), .extended(let until), .recovered(_, let until): return until
      default: continue
      }
    }
    return nil
  }

  /// Whether the breaker is half-open because other hosts have it open.
  var isSuspected: Bool {
    for fact in facts.reversed() {
      switch fact {
      case .suspected: return true
      case .opened, .halfOpened, .acquitted, .closed, .reset: return false
      default: continue
      }
    }
    return false
  }

  /// Whether an operator, or a failure that named its time, has set the open time.
  var isOpenTimeNamed: Bool {
    for fact in facts.reversed() {
      switch fact {
      case .opened(_, _, _, let isNamed): return isNamed
      case .extended: return true
      default: continue
      }
    }
    return false
  }

  /// When the last five outages began.
  var outages: [Int] {
    facts.compactMap { if case .outageBegan(let at) = $0 { at } else { nil } }.suffix(5)
  }

  /// The mode that was set last, whether or not it is over.
  var lastMode: (mode: BreakerMode, until: Int?) {
    for case .modeSet(let mode, let until) in facts.reversed() { return (mode, until) }
    return (.automatic, nil)
  }

  /// The facts since all counters were last cleared.
  var sinceCleared: ArraySlice<Fact> {
    let start = facts.lastIndex { fact in
      switch fact {
      case .closed, .reset: true
      default: false
      }
    }
    return facts[(start ?? 0)...]
  }

  /// The facts since the breaker became half-open.
  var trial: ArraySlice<Fact> {
    let start = facts.lastIndex { fact in
      switch fact {
      case .halfOpened, .suspected: true
      default: false
      }
    }
    return facts[(start ?? 0)...]
  }

  var probeSuccesses: Int {
    trial.count { if case .probeSucceeded = $0 { true } else { false } }
  }

  var probeFailures: Int {
    trial.count { if case .probeFailed = $0 { true } else { false } }
  }

  /// The leases that are held, oldest first, whatever the state is now.
  var leases: [Lease] {
    var leases: [Lease] = []
    for fact in facts {
      switch fact {
      case .probeGranted(let lease), .firstGranted(let lease): leases.append(lease)
      case .leaseRenewed(let id, let until):
        for index in leases.indices where leases[index].id == id { leases[index].deadline = until }
      case .leaseEnded(let id): leases.removeAll { $0.id == id }
      default: continue
      }
    }
    return leases
  }

  /// How long probes take that succeed; each of them weighs as much as all before it.
  var usualProbe: Int? {
    var usual: Int?
    for fact in facts {
      switch fact {
      case .probeTook(let time): usual = usual.map { ($0 + time) / 2 } ?? time
      case .probeTookTooLong(let time): usual = max(usual ?? 0, time)
      default: continue
      }
    }
    return usual
  }

  var lastLease: Int64 {
    Int64(
      facts.count {
        switch $0 {
        case .probeGranted, .firstGranted: true
        default: false
        }
      })
  }

  /// The calls since then, each with whether it counts.
  ///
  /// A failure too close to one that counted does not count.
  var calls: [(call: Call, counts: Bool)] {
    var calls: [(call: Call, counts: Bool)] = []
    for case .called(let call) in sinceCleared {
      let isLumped = calls.contains { earlier in
        guard call.hasFailed, earlier.call.hasFailed, earlier.counts else { return false }
        guard let gap = policy.lumping else { return false }
        return .nanoseconds(call.at - earlier.call.at) < gap
      }
      calls.append((call, !isLumped))
    }
    return calls
  }

  /// The failures since the last success, including those that do not count.
  var streak: ArraySlice<(call: Call, counts: Bool)> {
    let calls = calls
    let start = calls.lastIndex { !$0.call.hasFailed }
    var callsBefore = 0
    var callsBeforeAcquittal = 0
    for fact in sinceCleared {
      if case .called = fact { callsBefore += 1 }
      if case .acquitted = fact { callsBeforeAcquittal = callsBefore }
    }
    return calls[max((start ?? -1) + 1, callsBeforeAcquittal)...]
  }

  var consecutiveFailures: Int64 {
    var failedProbes = 0
    for fact in sinceCleared.reversed() {
      switch fact {
      case .probeFailed: failedProbes += 1
      case .probeSucceeded: return Int64(failedProbes)
      case .acquitted: return Int64(failedProbes + streak.count { $0.counts })
      default: continue
      }
    }
    return Int64(failedProbes + streak.count { $0.counts })
  }

  /// How many trips in a row a trip now would follow.
  func tripsInARow(at now: Int) -> Int {
    var count = 0
    var closedAt: Int?
    func decayed(_ count: Int, at now: Int) -> Int {
      guard let closedAt else { return 0 }
      var left = count
      var forgottenAt = closedAt
      while left > 0, forgottenAt + plainOpenTime(left - 1) <= now {
        forgottenAt += plainOpenTime(left - 1)
        left -= 1
      }
      return left
    }
    for fact in facts {
      switch fact {
      case .opened(let at, _, let from, _):
        count = (from == .closed ? decayed(count, at: at) : count) + 1
      case .closed(let at):
        closedAt = at
      case .reset(let at):
        closedAt = at
        count = 0
      default: continue
      }
    }
    return state == .closed || isSuspected ? decayed(count, at: now) : count
  }

  /// The open time after so many trips in a row, in integers: every factor is a multiple of 1/2.
  func plainOpenTime(_ trips: Int) -> Int {
    let halves = Int(policy.openMultiplier * 2)
    let longest = nanoseconds(policy.openMax ?? .seconds(365 * 86_400))
    var (time, parts) = (nanoseconds(policy.openFor), 1)
    for _ in 0..<trips where halves > 2 && time / parts < longest {
      time *= halves
      parts *= 2
    }
    return min(longest, time / parts)
  }

  func nanoseconds(_ duration: Duration) -> Int {
    Int(duration / .nanoseconds(1))
  }
}

/// Opening, probing and closing.
extension BreakerRecord {
  /// The longest time for which a failure may keep a breaker open if the policy has no `open-max`.
  package static let longestNamedOpenTime = Duration.seconds(86_400)

  /// The highest value that `growth` can reach.
  package static let largestGrowth: Int64 = 64

  mutating func open(
    at now: Moment, because reason: TripReason, policy: BreakerPolicy, jitter: Double
  ) -> BreakerEvent {
    let from = state
    let isConfirmed = isSuspected
    if from == .closed || isConfirmed { growth = decayedGrowth(at: now.boot, policy: policy) }
    openNanoseconds = openTime(
      after: growth, because: reason, policy: policy, jitter: jitter)
    openUntil = now.boot.advanced(by: openNanoseconds)
    isOpenTimeNamed = reason.isNamed
    growth = min(growth + 1, Self.largestGrowth)
    enter(.open, at: now)
    openReason = reason.ofOperator
    trips += 1
    probeSuccesses = 0
    probeFailures = 0
    openedAtMilliseconds = now.wallMilliseconds
    extendedAtMilliseconds = nil
    let change =
      isConfirmed
      ? BreakerChange.suspicion(from: from, to: state) : .transition(from: from, to: state)
    let beginsOutage = change.beginsOutage && !mode(at: now.boot).letsCallsThrough
    if beginsOutage { noteOutage(at: now.boot) }
    return BreakerEvent(
      change, reason: reason.text, atMilliseconds: now.wallMilliseconds,
      beginsOutage: beginsOutage)
  }

  /// Restarts the open time of an open breaker; this is neither a trip nor a transition.
  mutating func extend(
    at now: Moment, because reason: TripReason, policy: BreakerPolicy, jitter: Double
  ) -> BreakerEvent {
    // `growth` minus one is the exponent of this open time: opening raised it for the next trip.
    openNanoseconds = openTime(
      after: max(0, growth - 1), because: reason, policy: policy, jitter: jitter)
    openUntil = now.boot.advanced(by: openNanoseconds)
    isOpenTimeNamed = reason.isNamed
    openReason = reason.ofOperator
    extendedAtMilliseconds = now.wallMilliseconds
    return BreakerEvent(
      .extended, reason: reason.text,
      atMilliseconds: now.wallMilliseconds)
  }

  /// Ends the open time earlier, as if it had been shorter from the beginning.
  mutating func shortenOpenTime(by nanoseconds: Int64) {
    openUntil = openUntil?.advanced(by: -nanoseconds)
    openNanoseconds = openNanoseconds.subtractingSaturating(nanoseconds)
  }

  mutating func close(
    at now: Moment, because reason: String, policy: BreakerPolicy
  ) -> BreakerEvent {
    let from = state
    enter(.closed, at: now)
    closedAt = now.boot
    clearCounters()
    beginRamp(at: now, policy: policy)
    return BreakerEvent(
      .transition(from: from, to: state), reason: reason,
      atMilliseconds: now.wallMilliseconds)
  }

  mutating func enter(_ next: BreakerState, at now: Moment) {
    tally.moved(from: state, to: next, at: now.boot)
    state = next
    generation += 1
    generationOfState = generation
    endTurn()
    noRamp()
    openReason = nil
    changedAtMilliseconds = now.wallMilliseconds
  }

  /// Clears what the trip conditions and the half-open state look at, but keeps the leases.
  mutating func clearCounters() {
    consecutiveFailures = 0
    streakStartedAt = nil
    lastCountedFailureAt = nil
    failureTimes = []
    window = .none
    reporters = []
    openUntil = nil
    openNanoseconds = 0
    isOpenTimeNamed = false
    extendedAtMilliseconds = nil
    probeSuccesses = 0
    probeFailures = 0
  }

  private func openTime(
    after exponent: Int64, because reason: TripReason, policy: BreakerPolicy, jitter: Double
  ) -> Int64 {
    if let named = reason.openTime {
      let longest =
        reason.isOperators
        ? BreakerPolicy.longestDuration : policy.openMax ?? Self.longestNamedOpenTime
      return max(0, min(named, longest).inNanoseconds)
    }
    let grown = Self.grownOpenTime(exponent, policy: policy)
    guard policy.jitter.partsPerMillion > 0 else { return grown }
    let share = Double(policy.jitter.partsPerMillion) / 1_000_000
    let varied = Double(grown) * (1 + share * (2 * jitter - 1))
    return min(Self.longestOpenTime(policy), Int64(max(1, varied)))
  }

  private static func longestOpenTime(_ policy: BreakerPolicy) -> Int64 {
    (policy.openMax ?? BreakerPolicy.longestDuration).inNanoseconds
  }

  /// The open time of a trip that follows this many others, without jitter.
  private static func grownOpenTime(_ exponent: Int64, policy: BreakerPolicy) -> Int64 {
    let longest = longestOpenTime(policy)
    var time = Double(policy.openFor.inNanoseconds)
    for _ in 0..<exponent where time < Double(longest) { time *= policy.openMultiplier }
    return time >= Double(longest) ? longest : Int64(time)
  }

  /// The growth that is left after the healthy time since the last close.
  ///
  /// A breaker forgets one step of growth once it has been healthy for as long as the trip of that
  /// step kept it open. The rest of the healthy time counts for the step before.
  func decayedGrowth(at now: Instant, policy: BreakerPolicy) -> Int64 {
    guard let closedAt else { return 0 }
    var healthy = now.since(closedAt)
    var left = growth
    while left > 0 {
      let step = Self.grownOpenTime(left - 1, policy: policy)
      guard healthy >= step else { break }
      healthy -= step
      left -= 1
    }
    return left
  }
}

/// Half-open probes.
extension BreakerRecord {
  enum ProbeFailure {
    case failure(CallOutcome.Failure.Kind)
    case timeout

    /// Its process has ended.
    case lost

    /// Why the breaker opens if this probe decides it.
    fileprivate var reason: TripReason {
      switch self {
      case .failure(.opens(let time)): .named(time)
      case .failure(.permanent): .permanent
      case .failure(.ordinary): .probeFailed
      case .timeout: .probeTimedOut
      case .lost: .probeLost
      }
    }
  }

  mutating func probeEnded(_ call: EndedCall, policy: BreakerPolicy) -> BreakerEvent? {
    openUntil = nil
    switch call.outcome {
    case .ignored, .hold:
      return nil
    case .failure(let failure):
      return probeFailed(
        at: call.now, because: .failure(failure.kind), policy: policy, jitter: call.jitter)
    case .success where call.isSlow && policy.slowRate != nil:
      return probeFailed(
        at: call.now, because: .failure(.ordinary), policy: policy, jitter: call.jitter)
    case .success:
      return probeSucceeded(at: call.now, policy: policy)
    }
  }

  private mutating func probeSucceeded(at now: Moment, policy: BreakerPolicy) -> BreakerEvent? {
    probeSuccesses += 1
    consecutiveFailures = 0
    streakStartedAt = nil
    let needed: Int64
    if let probeCalls = policy.probeCalls, let rate = policy.probeFailureRate {
      needed = Int64(probeCalls) - rate.smallestPart(of: Int64(probeCalls)) + 1
    } else {
      needed = Int64(policy.successesToClose)
    }
    guard probeSuccesses >= needed else { return nil }
    let probes = probeSuccesses == 1 ? "the probe succeeded" : "\(probeSuccesses) probes succeeded"
    return isSuspected
      ? acquit(at: now, because: probes, policy: policy)
      : close(at: now, because: probes, policy: policy)
  }

  mutating func probeFailed(
    at now: Moment, because cause: ProbeFailure, policy: BreakerPolicy, jitter: Double
  ) -> BreakerEvent? {
    openUntil = nil
    probeFailures += 1
    consecutiveFailures += 1
    var reason = cause.reason
    switch cause {
    case .failure(.opens), .failure(.permanent): break
    case .failure(.ordinary), .timeout, .lost:
      if let probeCalls = policy.probeCalls, let rate = policy.probeFailureRate {
        guard probeFailures >= rate.smallestPart(of: Int64(probeCalls)) else { return nil }
        reason = .tooManyProbesFailed(probeFailures)
      }
    }
    return open(at: now, because: reason, policy: policy, jitter: jitter)
  }
}

/// Why a breaker opens, and for how long if the reason names a time.
enum TripReason {
  case consecutive(Int64)
  case failuresWithin(Int, Duration)
  case failureRate(CallCounts)
  case slowRate(CallCounts)
  case permanent
  case named(Duration)
  case probeFailed
  case probeTimedOut
  case probeLost
  case tooManyProbesFailed(Int64)
  case operatorSaid(String?, for: Duration?)

  var text: String {
    switch self {
    case .consecutive(let count): CountedNoun.text(count, "consecutive failure")
    case .failuresWithin(let count, let time):
      CountedNoun.text(count, "failure") + " within \(DurationText.format(time))"
    case .failureRate(let counts):
      "\(counts.failures) of \(CountedNoun.text(counts.calls, "call")) failed"
    case .slowRate(let counts):
      "\(counts.slow) of \(CountedNoun.text(counts.calls, "call")) took at least slow-after"
    case .permanent: "a permanent failure"
    case .named(let time): "a failure that named its open time, \(DurationText.format(time))"
    case .probeFailed: "the probe failed"
    case .probeTimedOut: "the probe took longer than probe-timeout"
    case .probeLost: "the process of the probe ended"
    case .tooManyProbesFailed(let count): CountedNoun.text(count, "probe") + " failed"
    case .operatorSaid(let reason, _): reason ?? "tripped by hand"
    }
  }

  /// The open time that the reason names, if any.
  var openTime: Duration? {
    switch self {
    case .named(let time): time
    case .operatorSaid(_, let time): time
    case .consecutive, .failuresWithin, .failureRate, .slowRate, .permanent, .probeFailed,
      .probeTimedOut, .probeLost, .tooManyProbesFailed:
      nil
    }
  }

  /// Whether only an operator, or time, may end the open time.
  var isNamed: Bool { isOperators || openTime != nil }

  /// Why an operator opens the breaker, if one does and says why.
  var ofOperator: String? {
    if case .operatorSaid(let reason, _) = self { return reason }
    return nil
  }

  var isOperators: Bool {
    if case .operatorSaid = self { return true }
    return false
  }
}

/// When a breaker flaps: its resource comes and goes, so that it is healthy only between outages.
///
/// Only the beginnings of outages count. One long outage is not flapping, however often its probes
/// fail, and neither is an opening that rejects no call because of the mode.
@_spi(Command) public enum Flapping {
  /// With how many outages within ``span`` a breaker flaps.
  @_spi(Command) public static let outages = 5

  /// The time that outages are counted over.
  @_spi(Command) public static let span = Duration.seconds(3_600)
}

extension BreakerRecord {
  /// Whether the breaker flaps.
  package func isFlapping(at now: Instant) -> Bool {
    let start = now.advanced(by: -Flapping.span.inNanoseconds)
    return outageTimes.count { $0 > start } >= Flapping.outages
  }

  /// Notes that an outage begins.
  mutating func noteOutage(at now: Instant) {
    outageTimes.append(now)
    outageTimes.removeFirst(max(0, outageTimes.count - Flapping.outages))
  }
}

/// Everything that a breaker remembers: one row of the store, as a plain value.
package struct BreakerRecord: Sendable, Hashable {
  package var state = BreakerState.closed

  /// Raised by every state change, so that an outcome of an earlier call can be recognized.
  package var generation: Int64 = 1

  /// The generation that the latest change of the state began: a permit since then is judged.
  package var generationOfState: Int64 = 1
  package var mode = ModeSetting()

  // The evidence that the trip conditions look at.
  package var consecutiveFailures: Int64 = 0

  /// When the first failure since the last success happened, lumped with an earlier one or not.
  package var streakStartedAt: Instant?
  package var lastCountedFailureAt: Instant?
  package var failureTimes: [Instant] = []
  package var window = CallWindow.none
  package var reporters: [Reporter] = []

  // The open time.

  /// When the open time ends, or in the half-open state, before which instant no further probe begins.
  ///
  /// In that state it is nil unless probes were lost with their processes, with no outcome since. The first
  /// loss sets it to when it was noticed, and a further one to the end of the wait.
  package var openUntil: Instant?

  /// How long the open time lasts, counted from when it was set.
  package var openNanoseconds: Int64 = 0

  /// Whether an operator, or a failure that named its time, has set the open time.
  package var isOpenTimeNamed = false

  /// Why an operator has opened the breaker; nil if no operator has, or gave no reason.
  package var openReason: String?

  /// The exponent of the next open time, before decay.
  package var growth: Int64 = 0
  package var closedAt: Instant?

  /// When other hosts of the fleet last made the breaker half-open; nil if not since the host booted.
  package var suspectedAt: Instant?

  /// When the latest outages began, at most as many as ``Flapping`` asks for, oldest first.
  package var outageTimes: [Instant] = []

  /// When a recovery on another host last shortened the open time; nil if not since the host booted.
  package var recoveredAt: Instant?

  // Holds, which leave the state as it is.
  package var holds = HoldRecord()

  /// When the ramp after a close or a hold ends; nil if there is none.
  package var rampUntil: Instant?

  /// How many units count as having succeeded when it began: that of a first call which still runs, and was let in.
  package var rampHeadStart: Int64 = 0

  // Probes. A lease outlives the state in which it was granted, because its call does too.
  package var leases: [ProbeLease] = []
  package var lastLease: Int64 = 0

  /// How long successful probes take, with the latest weighing most; nil until one has succeeded.
  package var usualProbeNanoseconds: Int64?
  package var probeSuccesses: Int64 = 0
  package var probeFailures: Int64 = 0

  // For people; no decision depends on these.
  package var trips: Int64 = 0
  package var tally = StateTally()
  package var totals = BreakerTotals()
  package var changedAtMilliseconds: Int64?
  package var openedAtMilliseconds: Int64?

  /// When the open time was last restarted by hand; nil if it counts from the opening.
  package var extendedAtMilliseconds: Int64?
  package var lastFailureAtMilliseconds: Int64?
  package var lastError: String?

  package init() {}
}

/// The mode, its author, its reason, and its end.
package struct ModeSetting: Sendable, Hashable {
  package var mode = BreakerMode.automatic
  package var until: Instant?
  package var lengthNanoseconds: Int64 = 0
  package var setAtMilliseconds: Int64?
  package var reason: String?
  package var setBy: String?

  package init() {}
}

/// A process that reported a failure or a slow call, and when it last did so.
package struct Reporter: Sendable, Hashable {
  /// The kind of report; the integers are stored in files and never change.
  ///
  /// Reports of slow calls must not count as `reporters` of failed calls, nor the reverse.
  package enum Evidence: Int, Sendable, Hashable, CaseIterable {
    case failure = 0
    case slowCall = 1
  }

  package var process: ProcessIdentity
  package var evidence: Evidence
  package var at: Instant

  /// The position of the call in the window, for windows that count calls instead of time.
  package var call: Int64

  package init(
    process: ProcessIdentity, evidence: Evidence = .failure, at: Instant, call: Int64
  ) {
    self.process = process
    self.evidence = evidence
    self.at = at
    self.call = call
  }
}

/// How many calls have ended in each way, over the breaker's lifetime.
public struct BreakerTotals: Sendable, Hashable {
  /// Calls that succeeded.
  public var successes: Int64 = 0

  /// Calls that failed.
  public var failures: Int64 = 0

  /// Calls that tell you nothing about the resource.
  public var ignored: Int64 = 0

  /// Calls that the breaker rejected.
  public var rejections: Int64 = 0

  /// Calls that took at least `slow-after`.
  public var slow: Int64 = 0

  /// Calls that were permitted only because the mode was `observe`.
  public var wouldReject: Int64 = 0

  /// Calls for which `max-concurrent` left no room; they are not among the `rejections`.
  public var busy: Int64 = 0

  /// Calls whose outcome asked to leave the resource alone; they are among the `ignored` too.
  public var holds: Int64 = 0

  /// Calls that a hold turned away; they are not among the `rejections`.
  public var held: Int64 = 0

  /// Calls that a ramp turned away; they are not among the `rejections`.
  public var ramping: Int64 = 0

  /// Calls that `rate` turned away; they are not among the `rejections`.
  public var overRate: Int64 = 0

  /// Retries that were sent, as far as `retry-budget` counts them; how they ended is counted like that of any call.
  public var retries: Int64 = 0

  /// Retries that `retry-budget` did not let through; they are not among the `rejections`.
  public var overBudget: Int64 = 0

  /// Calls that were under way when their process ended, as far as `max-concurrent` shows them.
  ///
  /// A process that exits by itself loses none. They are among the failures too, or else among the ignored calls: `lost-calls` decides that.
  public var lostCalls: Int64 = 0

  /// Creates totals in which nothing has been counted.
  package init() {}

  package var isZero: Bool { self == BreakerTotals() }

  package static func += (left: inout BreakerTotals, right: BreakerTotals) {
    left.successes = left.successes.addingSaturating(right.successes)
    left.failures = left.failures.addingSaturating(right.failures)
    left.ignored = left.ignored.addingSaturating(right.ignored)
    left.rejections = left.rejections.addingSaturating(right.rejections)
    left.slow = left.slow.addingSaturating(right.slow)
    left.wouldReject = left.wouldReject.addingSaturating(right.wouldReject)
    left.busy = left.busy.addingSaturating(right.busy)
    left.holds = left.holds.addingSaturating(right.holds)
    left.held = left.held.addingSaturating(right.held)
    left.ramping = left.ramping.addingSaturating(right.ramping)
    left.overRate = left.overRate.addingSaturating(right.overRate)
    left.retries = left.retries.addingSaturating(right.retries)
    left.overBudget = left.overBudget.addingSaturating(right.overBudget)
    left.lostCalls = left.lostCalls.addingSaturating(right.lostCalls)
  }
}

extension BreakerRecord {
  /// The mode in effect now: a mode that has expired is automatic again.
  package func mode(at now: Instant) -> BreakerMode {
    if let until = mode.until, now >= until { return .automatic }
    return mode.mode
  }

  /// The event of a change of the mode; get it before the change.
  ///
  /// If the state counts again and the breaker is not closed, calls begin to be rejected.
  mutating func modeEvent(
    to next: BreakerMode, because reason: String?, at now: Moment
  ) -> BreakerEvent {
    let beginsOutage = state != .closed && mode.mode.letsCallsThrough && next == .automatic
    if beginsOutage { noteOutage(at: now.boot) }
    return BreakerEvent(
      .mode(from: mode.mode, to: next), reason: reason, atMilliseconds: now.wallMilliseconds,
      beginsOutage: beginsOutage)
  }

  /// Whether outcomes can change the state, which they cannot while a mode is forced.
  package func isJudging(at now: Instant) -> Bool { mode(at: now).isJudging }

  /// Whether a call with this number was permitted since the state last changed.
  func isOfThisState(_ generation: Int64) -> Bool { generation >= generationOfState }

  /// How much longer the breaker stays open; zero if a probe is due, nil if it is not open.
  package func openRemaining(at now: Instant) -> Int64? {
    guard state == .open else { return nil }
    guard let openUntil else { return 0 }
    return max(0, openUntil.since(now))
  }
}

extension BreakerMode {
  /// Whether calls are made whatever the state is.
  var letsCallsThrough: Bool {
    switch self {
    case .observe, .forcedClosed: true
    case .automatic, .forcedOpen: false
    }
  }

  /// Whether outcomes move the state under this mode.
  package var isJudging: Bool {
    switch self {
    case .automatic, .observe: true
    case .forcedOpen, .forcedClosed: false
    }
  }
}

internal import BreakerCore
internal import BreakerStore

/// A breaker as it stood at one moment.
///
/// Changes that follow from time alone are already applied, even if no call has recorded them yet:
/// a mode that has ended, or a probe that has missed its deadline.
public struct BreakerSnapshot: Sendable, Hashable {
  /// The name of the breaker.
  public let name: String

  /// The state that the breaker was in.
  public let state: BreakerState

  /// The mode that was in force.
  public let mode: BreakerMode

  /// Why the breaker was tripped by hand; nil if it was not, if no reason was given, or if it is no longer open.
  public let openReason: String?

  /// Why the mode was set; nil if no reason was given.
  public let modeReason: String?

  /// The author of the mode, such as `worker (pid 4711)` or `deploy, via cbctl`.
  public let modeSetBy: String?

  /// When the mode was set; nil if it is automatic.
  public let modeSetAt: BreakerTimestamp?

  /// How long the mode will hold; nil if it holds until it is set again.
  public let modeEndsIn: Duration?

  /// When the mode that was set last ended; nil once the next call has put that into the history.
  public let modeEndedAt: BreakerTimestamp?

  /// The rejection that a call would have got; nil if it would have been permitted.
  ///
  /// It says nothing about `max-concurrent`, a ramp and `rate`: see ``hasRoom``. Its time is the same for all callers, without `jitter`.
  public let rejection: Rejection?

  /// Whether the breaker would have permitted a call.
  public var permits: Bool { rejection == nil }

  /// Whether the open time was over and a slot was free, so that the next call would be a probe.
  public let isProbeDue: Bool

  /// When asking again makes sense; nil if calls are permitted, or if that is not known.
  public var retryAfter: Duration? { rejection?.retryAfter }

  /// The hold, until a call that began after it has succeeded or failed; nil if there is none.
  public let hold: HoldSnapshot?

  /// The ramp after a close or a hold; nil if there is none.
  public let ramp: RampSnapshot?

  /// How far `rate` is used up; nil if the policy has no `rate`, or if that is not known.
  public let rate: RateSnapshot?

  /// The retries of the last seconds; nil if the policy has no `retry-budget`, or if they are not known.
  public let retries: RetrySnapshot?

  /// The number of failures since the last success.
  public let consecutiveFailures: Int64

  /// Failures that still count for `failures` within `within`; nil if the policy does not set them.
  public let recentFailures: Int64?

  /// How long the breaker stays open, whatever the mode; nil if it is not open.
  public let openEndsIn: Duration?

  /// How long the open time had been over; nil if no probe was due, or if the time is not known.
  public let dueFor: Duration?

  /// The number of probes of this round that have succeeded; 0 unless the breaker is half-open.
  ///
  /// `successes-to-close` of them close the breaker, or `probe-calls` judged together.
  public let probeSuccesses: Int64

  /// The number of probes of this round that have failed, where the policy tolerates some.
  public let probeFailures: Int64

  /// How many more probes could have begun; 0 unless the breaker is half-open or a probe is due.
  public let freeProbeSlots: Int

  /// How often the latest open time was multiplied by `open-multiplier`.
  public let openTimeGrowth: Int64

  /// The number of calls in the window that rates are computed over.
  public let windowCalls: Int64

  /// The number of failed calls in that window.
  public let windowFailures: Int64

  /// The number of slow calls in that window.
  public let windowSlow: Int64

  /// How often the breaker has opened.
  public let trips: Int64

  /// Whether the breaker flapped: five outages had begun within an hour.
  ///
  /// Outages before a reboot of the host do not count.
  public let isFlapping: Bool

  /// A number that rises with every change of the state.
  public let generation: Int64

  /// When the breaker was created.
  public let createdAt: BreakerTimestamp?

  /// When the state last changed.
  public let changedAt: BreakerTimestamp?

  /// When the breaker last opened.
  public let openedAt: BreakerTimestamp?

  /// When other hosts of the fleet last made the breaker half-open; nil if not since the host booted.
  public let suspectedAt: BreakerTimestamp?

  /// When a call last failed.
  public let lastFailureAt: BreakerTimestamp?

  /// When the breaker was last used or changed; nil if that is not known.
  ///
  /// Successes are counted without a time. So this is nil if calls have succeeded since the breaker
  /// was last written: the latest may have been just now. The next write to the breaker sets it
  /// again; ``SharedStore/noteUse(of:)`` is such a write.
  public let lastUsedAt: BreakerTimestamp?

  /// The error text of the latest failure; nil if there was none.
  public let lastError: String?

  /// How long the breaker has been in its state without a break.
  public let timeInState: Duration

  /// How long the breaker has been in each state since it was created.
  ///
  /// The times are measured on the boot clock, so they never go backwards. An open time that is
  /// over counts as open until a call makes the breaker half-open. A time in a state that a reboot
  /// of the host interrupted is measured on the wall clock.
  public let timeInStates: PerState<Duration>

  /// How often the breaker has entered each state from another one since it was created.
  public let transitions: PerState<Int64>

  /// How many calls have ended in each way since the breaker was created.
  public let totals: BreakerTotals

  /// The probes that were under way, including those of earlier rounds.
  public let leases: [LeaseSnapshot]

  /// The number of probes that hold a slot, because their owners have not ended.
  public var probesInFlight: Int64 { Int64(leases.count { !$0.isOwnerGone }) }

  /// The calls under way that have taken room, and the callers that wait; nil if neither is known, or if calls take no
  /// room because the policy has no `max-concurrent` and the breaker is in no ramp.
  ///
  /// Neither is known while the file `-slots` beside the store is missing, cannot be read, or
  /// belongs to another boot; the next call makes a new one.
  public let limit: LimitSnapshot?

  /// Whether a call of one unit would find room under `max-concurrent`, in a ramp and under `rate` now, without waiting;
  /// true without any of these, and nil if what is under way or has begun is not known.
  ///
  /// It says nothing about the state and the mode: see ``permits``.
  public var hasRoom: Bool? {
    if !policy.boundsCalls, ramp == nil { return true }
    guard let limit, policy.rate != nil else { return limit?.hasRoom }
    return limit.hasRoom ? rate.map { $0.nextIn == .zero } : false
  }

  /// Why a call that the state permits would be turned away now without waiting; nil if it would not, or if that is not
  /// known.
  @_spi(Command) public var causeWithoutRoom: RejectionCause? {
    guard hasRoom == false, mode != .observe else { return nil }
    if ramp != nil, limit?.hasRoom == false { return .ramping }
    if let most = policy.maxConcurrent, let limit, limit.unitsInUse >= most { return .busy }
    return rate.map { $0.nextIn > .zero } == true ? .rate : .busy
  }

  let agreed: AgreedPolicy

  /// The version that the snapshot was taken of.
  let version: StoredVersion

  /// The policy in force.
  public var policy: BreakerPolicy { agreed.policy }

  /// The values that an operator has set over the policy of the code.
  public var operatorValues: [PolicyKey: String] { agreed.operatorValues }

  /// The share of calls in the window that failed; nil while there are too few to judge.
  ///
  /// A window is judged from `min-calls` on, or from its first call on if the policy looks at no rate.
  public var failureRate: Double? {
    let isJudged = policy.failureRate != nil || policy.slowRate != nil
    let least = Int64(isJudged ? policy.callsToJudge : 1)
    return windowCalls >= max(1, least) ? Double(windowFailures) / Double(windowCalls) : nil
  }

  /// Returns the source of a value of the policy.
  public func source(of key: PolicyKey) -> PolicySource {
    if operatorValues[key] != nil { return .operator }
    return agreed.codeKeys.contains(key) ? .code : .default
  }
}

/// The source of a value of a policy.
///
/// A later version may add cases, so end a `switch` over a source with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum PolicySource: String, Sendable, Hashable, CaseIterable {
  /// Neither code nor an operator has set the value, so it is the default.
  case `default`

  /// Code has declared the value.
  case code

  /// An operator has set the value.
  case `operator`
}

/// A time for which a resource that works has asked to be left alone.
public struct HoldSnapshot: Sendable, Hashable {
  /// How much longer calls are held; zero if the time is over, and no call has succeeded or failed since.
  public let endsIn: Duration

  /// When it began; prolonging it does not change that.
  public let since: BreakerTimestamp

  /// How often it was prolonged.
  public let extensions: Int64

  /// How long the resource has asked for, if `hold-max` has cut it.
  public let askedFor: Duration?

  /// How long it lasts, counted from when it was set last.
  public let length: Duration

  /// Whether a program or an operator has set it without a call.
  public let isByHand: Bool

  /// Why, such as `HTTP 429`; nil if no reason was given.
  public let reason: String?

  /// The process that has set it last, or the host that has told it, in words.
  public let setBy: String?

  /// The host of the fleet that has told it; nil if this host was told itself.
  public let host: String?

  init(_ hold: Hold, at now: Instant) {
    endsIn = .nanoseconds(hold.remaining(at: now))
    since = BreakerTimestamp(millisecondsSince1970: hold.sinceMilliseconds)
    extensions = hold.extensions
    askedFor = hold.askedNanoseconds.map { .nanoseconds($0) }
    length = .nanoseconds(hold.lengthNanoseconds)
    isByHand = hold.isByHand
    reason = hold.reason
    setBy = hold.setBy
    host = hold.host
  }
}

/// The time after a close or a hold in which few calls go at first, and more with each success.
public struct RampSnapshot: Sendable, Hashable {
  /// How much longer it lasts.
  public let endsIn: Duration

  /// How many units may be under way: as many as have succeeded since it began, and one more; nil if not known.
  public let unitsPermitted: Int?
}

/// How far `rate` is used up.
public struct RateSnapshot: Sendable, Hashable {
  /// How many calls have begun in the interval that ends now.
  ///
  /// After `rate` was lowered, it can be more than that permits.
  public let begun: Int

  /// How long until a call may begin that comes now, after all that wait; zero if it may begin at once.
  public let nextIn: Duration
}

/// The retries of the last ten seconds, as far as `retry-budget` counts them.
public struct RetrySnapshot: Sendable, Hashable {
  /// How many first attempts have ended.
  public let firstAttempts: Int64

  /// How many retries were sent.
  public let sent: Int64

  /// Whether another one would be sent now.
  public let permitsAnother: Bool
}

/// A probe that is under way.
public struct LeaseSnapshot: Sendable, Hashable {
  /// The process whose end frees the slot; nil if only the deadline frees it.
  public let ownerPid: Int32?

  /// How long until the deadline, at which the probe fails.
  public let endsIn: Duration

  /// Whether the owner has ended, so that the next caller gets the slot.
  public let isOwnerGone: Bool
}

extension BreakerSnapshot {
  init(
    of stored: StoredBreaker, at now: Moment, slots: SlotState? = nil,
    attempts: RecentAttempts? = nil,
    look: (ProcessIdentity) -> SeenProcess? = ProcessTable.look,
    isGone: (ProcessIdentity) -> Bool
  ) {
    agreed = stored.agreed
    version = StoredVersion(of: stored)
    let policy = agreed.policy
    let owners = stored.record.leases.compactMap(\.owner)
    let gone = Set(owners.filter(isGone))
    var record = stored.record
    let past = record.settle(at: now, policy: policy, isGone: gone.contains)
    let counts = record.window.counts(at: now.boot)
    name = stored.name
    state = record.state
    mode = record.mode.mode
    openReason = record.openReason
    modeReason = record.mode.reason
    modeSetBy = record.mode.setBy
    modeSetAt = record.mode.setAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    modeEndsIn = record.mode.until.map { .nanoseconds($0.since(now.boot)) }
    modeEndedAt = past.first { $0.change.kind == .mode }.map {
      BreakerTimestamp(millisecondsSince1970: $0.atMilliseconds)
    }
    var copy = record
    switch copy.requested(at: now, by: nil, policy: policy).answer {
    case .permitted(let grant):
      rejection = nil
      isProbeDue = record.state == .open && grant.kind == .probe
    case .rejected(let found):
      rejection = found
      isProbeDue = false
    }
    hold = record.holds.hold.map { HoldSnapshot($0, at: now.boot) }
    ramp = record.rampEnd(at: now.boot).map { end in
      RampSnapshot(
        endsIn: .nanoseconds(end.since(now.boot)),
        unitsPermitted: slots.map { $0.rampAllowance?.units ?? 1 + Int(record.rampHeadStart) })
    }
    let isRamping = ramp != nil
    // A rate alone does not bound how many calls are under way.
    let room = policy.limit ?? (isRamping ? policy.room : CallLimit(.max))
    let hasQueue = policy.queueTimeout != nil && CellLimit.takesRoom(stored)
    limit = slots.flatMap {
      policy.boundsCalls || isRamping || hasQueue
        ? LimitSnapshot($0, under: room, inRamp: isRamping, look: look) : nil
    }
    rate = policy.rate.flatMap { rate in
      slots?.rate.flatMap { use in
        use.isOf(rate)
          ? RateSnapshot(begun: use.begun, nextIn: .nanoseconds(use.nanosecondsToNext)) : nil
      }
    }
    retries = policy.retryBudget.flatMap { share in
      attempts.map {
        RetrySnapshot(
          firstAttempts: $0.firsts, sent: $0.retries,
          permitsAnother: RetryBudget(share).permitsRetry(after: $0))
      }
    }
    consecutiveFailures = record.consecutiveFailures
    recentFailures = policy.within.map { record.recentFailures(within: $0, at: now.boot) }
    openEndsIn = record.openRemaining(at: now.boot).map { .nanoseconds($0) }
    dueFor = isProbeDue ? Self.passed(since: record.openUntil, at: now) : nil
    probeSuccesses = record.state == .halfOpen ? record.probeSuccesses : 0
    probeFailures = record.state == .halfOpen ? record.probeFailures : 0
    let isProbing = record.state == .halfOpen || isProbeDue
    freeProbeSlots = isProbing && rejection == nil ? max(0, policy.probes - record.leases.count) : 0
    openTimeGrowth = max(0, record.growth - 1)
    windowCalls = counts.calls
    windowFailures = counts.failures
    windowSlow = counts.slow
    trips = record.trips
    isFlapping = record.isFlapping(at: now.boot)
    generation = record.generation
    createdAt = BreakerTimestamp(millisecondsSince1970: stored.createdAtMilliseconds)
    changedAt = record.changedAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    openedAt = record.openedAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    suspectedAt = record.suspectedAt.map {
      BreakerTimestamp(millisecondsSince1970: now.at($0).wallMilliseconds)
    }
    lastFailureAt = record.lastFailureAtMilliseconds.map(
      BreakerTimestamp.init(millisecondsSince1970:))
    lastError = record.lastError
    lastUsedAt = stored.usedAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    timeInState = .nanoseconds(record.tally.nanosecondsInState(at: now.boot))
    timeInStates = record.tally.nanoseconds(in: state, at: now.boot).map { .nanoseconds($0) }
    transitions = record.tally.entries
    totals = record.totals
    leases = stored.record.leases.filter { now.boot < $0.deadline }.map {
      LeaseSnapshot(
        ownerPid: $0.owner?.pid, endsIn: .nanoseconds($0.deadline.since(now.boot)),
        isOwnerGone: $0.owner.map(gone.contains) ?? false)
    }
  }

  /// How long ago an instant was; nil if it is in the future or not known.
  private static func passed(since instant: Instant?, at now: Moment) -> Duration? {
    guard let instant, now.boot >= instant else { return nil }
    return .nanoseconds(now.boot.since(instant))
  }
}

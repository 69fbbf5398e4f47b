internal import BreakerCore
internal import BreakerStore

/// A breaker as it stood at one moment.
public struct BreakerSnapshot: Sendable, Hashable {
  /// The name of the breaker.
  public let name: String

  /// The state that it was in.
  public let state: BreakerState

  /// The mode that held.
  public let mode: BreakerMode

  /// Why the mode was set.
  public let modeReason: String?

  /// Who set the mode.
  public let modeSetBy: String?

  /// How long the mode will hold; nil if it holds until it is taken away.
  public let modeEndsIn: Duration?

  /// When the mode that was set last ran out, until the next call puts that into the history.
  public let modeEndedAt: Timestamp?

  /// Whether a call would have been let through.
  public let permits: Bool

  /// Whether the open time was over and a slot free, so that the next call would be a probe.
  public let isProbeDue: Bool

  /// How long until the answer can be another one; nil if calls go through, or if nobody knows.
  public let retryAfter: Duration?

  /// Failures with no success between them.
  public let consecutiveFailures: Int64

  /// Failures that still count for `failures` within `within`; nil if the policy does not set them.
  public let recentFailures: Int64?

  /// How long the breaker stays open, whatever the mode; nil if it is not open.
  public let openEndsIn: Duration?

  /// How long the open time had been over; nil if the next call would not be a probe, or if the time
  /// is not known.
  public let dueFor: Duration?

  /// Calls in the window over which rates are taken.
  public let windowCalls: Int64

  /// Failed calls in that window.
  public let windowFailures: Int64

  /// Slow calls in that window.
  public let windowSlow: Int64

  /// How often the breaker has opened.
  public let trips: Int64

  /// Raised by every change of the state.
  public let generation: Int64

  /// When the breaker was made.
  public let createdAt: Timestamp?

  /// When the state last changed.
  public let changedAt: Timestamp?

  /// When the breaker last opened.
  public let openedAt: Timestamp?

  /// When a call last failed.
  public let lastFailureAt: Timestamp?

  /// When the breaker was last used or changed.
  ///
  /// Nil if calls succeeded since it was last written: nobody knows when, so it may be now. The next
  /// write knows; ``SharedStore/noteUse(of:)`` is one.
  public let lastUsedAt: Timestamp?

  /// What the latest failure said.
  public let lastError: String?

  /// How long the breaker had been in the state without a break.
  public let timeInState: Duration

  /// How long the breaker has been in each state in all its life.
  ///
  /// It counts on the boot clock, so it never goes back, and ends only with the breaker. An open
  /// time that is over still counts as open until a call makes it half-open. What a boot of the
  /// host has broken off is told by the wall clock.
  public let timeInStates: PerState<Duration>

  /// How often the breaker has come into each state from another one in all its life.
  public let transitions: PerState<Int64>

  /// How many calls ever ended in which way.
  public let totals: Totals

  /// The probes that were under way, those of earlier rounds included.
  public let leases: [LeaseSnapshot]

  let agreed: AgreedPolicy

  /// What it was made of, which is no part of what it says.
  let version: Remembered<StoredVersion>

  /// The policy in force.
  public var policy: BreakerPolicy { agreed.policy }

  /// What an operator has set.
  public var operatorValues: [PolicyKey: String] { agreed.operatorValues }

  /// The share of calls in the window that failed; nil if there were none.
  public var failureRate: Double? {
    windowCalls > 0 ? Double(windowFailures) / Double(windowCalls) : nil
  }

  /// Who a value of the policy comes from.
  public func source(of key: PolicyKey) -> PolicySource {
    if operatorValues[key] != nil { return .operator }
    return agreed.codeKeys.contains(key) ? .code : .default
  }
}

/// Who a value of a policy comes from.
public enum PolicySource: String, Sendable, Hashable, CaseIterable {
  /// Nobody has said anything.
  case `default`

  /// Code has declared it.
  case code

  /// An operator has set it.
  case `operator`

  /// The name of the source in JSON.
  public var wireName: String { rawValue }
}

/// A probe that is under way.
public struct LeaseSnapshot: Sendable, Hashable {
  /// The process whose end frees the slot; nil if only the deadline does.
  public let ownerPid: Int32?

  /// How long until the probe counts as failed.
  public let endsIn: Duration

  /// Whether the owner has ended, so that the next caller gets the slot.
  public let isOwnerGone: Bool
}

extension BreakerSnapshot {
  init(
    of stored: StoredBreaker, at now: Moment,
    isGone: (ProcessIdentity) -> Bool = HostProcesses.system.isGone
  ) {
    agreed = stored.agreedPolicy
    version = Remembered(StoredVersion(of: stored))
    let policy = agreed.policy
    let owners = stored.record.leases.compactMap(\.owner)
    let gone = Set(owners.filter(isGone))
    var record = stored.record
    let past = record.settle(at: now, policy: policy, isGone: gone.contains)
    let counts = record.window.counts(at: now.boot)
    name = stored.name
    state = record.state
    mode = record.mode.mode
    modeReason = record.mode.reason
    modeSetBy = record.mode.setBy
    modeEndsIn = record.mode.until.map { .nanoseconds($0.since(now.boot)) }
    modeEndedAt = past.first { $0.kind == .mode }.map {
      Timestamp(millisecondsSince1970: $0.atMilliseconds)
    }
    var copy = record
    switch copy.requested(at: now, by: nil, policy: policy).answer {
    case .permitted(let grant):
      permits = true
      isProbeDue = record.state == .open && grant.kind == .probe
      retryAfter = nil
    case .rejected(let rejection):
      permits = false
      isProbeDue = false
      retryAfter = rejection.retryAfter
    }
    consecutiveFailures = record.consecutiveFailures
    recentFailures = policy.within.map { record.recentFailures(within: $0, at: now.boot) }
    openEndsIn = record.openRemaining(at: now.boot).map { .nanoseconds($0) }
    dueFor = isProbeDue ? Self.passed(since: record.openUntil, at: now) : nil
    windowCalls = counts.calls
    windowFailures = counts.failures
    windowSlow = counts.slow
    trips = record.trips
    generation = record.generation
    createdAt = Timestamp(millisecondsSince1970: stored.createdAtMilliseconds)
    changedAt = record.changedAtMilliseconds.map(Timestamp.init(millisecondsSince1970:))
    openedAt = record.openedAtMilliseconds.map(Timestamp.init(millisecondsSince1970:))
    lastFailureAt = record.lastFailureAtMilliseconds.map(Timestamp.init(millisecondsSince1970:))
    lastError = record.lastError
    lastUsedAt = stored.usedAtMilliseconds.map(Timestamp.init(millisecondsSince1970:))
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

  /// How long ago an instant was; nil if it is yet to come or not known.
  private static func passed(since instant: Instant?, at now: Moment) -> Duration? {
    guard let instant, now.boot >= instant else { return nil }
    return .nanoseconds(now.boot.since(instant))
  }
}

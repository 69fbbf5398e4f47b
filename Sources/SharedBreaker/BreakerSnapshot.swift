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

  /// Whether a call would have been let through.
  public let permits: Bool

  /// Whether the open time was over, so that the next call would be a probe.
  public let isProbeDue: Bool

  /// How long until the answer can be another one; nil if calls go through, or if nobody knows.
  public let retryAfter: Duration?

  /// Failures with no success between them.
  public let consecutiveFailures: Int64

  /// Failures that still count for `failures` within `within`; nil if the policy does not set them.
  public let recentFailures: Int64?

  /// How long the breaker stays open, whatever the mode; nil if it is not open.
  public let openEndsIn: Duration?

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

  /// How many calls ever ended in which way.
  public let totals: Totals

  /// The probes that were under way.
  public let leases: [LeaseSnapshot]

  private let agreed: AgreedPolicy

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
  init(of stored: StoredBreaker, at now: Moment) {
    let record = stored.record
    agreed = stored.agreedPolicy
    version = Remembered(StoredVersion(of: stored))
    let policy = agreed.policy
    let counts = record.window.counts(at: now.boot)
    name = stored.name
    state = record.state
    mode = record.mode(at: now.boot)
    let isModeSet = mode != .automatic
    modeReason = isModeSet ? record.mode.reason : nil
    modeSetBy = isModeSet ? record.mode.setBy : nil
    modeEndsIn =
      isModeSet ? record.mode.until.map { .nanoseconds(max(0, $0.since(now.boot))) } : nil
    var copy = record
    let answer = copy.requested(
      at: now, by: nil, policy: policy, jitter: 0.5, isGone: ProcessTable.isGone
    ).answer
    isProbeDue = record.openRemaining(at: now.boot) == 0 && record.isJudging(at: now.boot)
    switch answer {
    case .permitted:
      permits = true
      retryAfter = nil
    case .rejected(let rejection):
      permits = false
      retryAfter = rejection.retryAfter
    }
    consecutiveFailures = record.consecutiveFailures
    recentFailures = policy.within.map { record.recentFailures(within: $0, at: now.boot) }
    openEndsIn = record.openRemaining(at: now.boot).map { .nanoseconds($0) }
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
    totals = record.totals
    leases = record.leases.map {
      LeaseSnapshot(
        ownerPid: $0.owner?.pid, endsIn: .nanoseconds(max(0, $0.deadline.since(now.boot))),
        isOwnerGone: $0.owner.map(ProcessTable.isGone) ?? false)
    }
  }
}

/// What a permit is for.
public enum PermitKind: Sendable, Hashable {
  /// An ordinary call through a breaker that lets calls through.
  case normal

  /// One of the few calls that find out whether the resource is back.
  case probe

  /// The name of the kind in JSON.
  public var wireName: String {
    switch self {
    case .normal: "normal"
    case .probe: "probe"
    }
  }
}

/// The core's side of a permit: what has to be known again when its outcome comes back.
package struct PermitGrant: Sendable, Hashable {
  /// A generation that no breaker ever has, so that the outcome moves no state.
  package static let unjudged: Int64 = 0

  package var kind: PermitKind
  package var generation: Int64

  /// The lease of a probe; 0 for a normal permit.
  package var lease: Int64

  /// When the lease of a probe ends.
  package var deadline: Instant?

  /// Whether only the observe mode let this call through.
  package var wouldReject: Bool

  package init(
    kind: PermitKind, generation: Int64, lease: Int64 = 0, deadline: Instant? = nil,
    wouldReject: Bool = false
  ) {
    self.kind = kind
    self.generation = generation
    self.lease = lease
    self.deadline = deadline
    self.wouldReject = wouldReject
  }
}

/// Why a call was not let through, and when to come back.
public struct Rejection: Sendable, Hashable {
  /// The state that the breaker was in.
  public var state: BreakerState

  /// The mode that the breaker was in.
  public var mode: BreakerMode

  /// How long to wait until the answer may be another one; nil where only an operator knows.
  ///
  /// While a probe is under way this is when its lease ends: it may end much sooner, or be renewed.
  public var retryAfter: Duration?

  /// Why the mode was set, if it is the mode that rejects.
  public var reason: String?

  /// Describes a rejection.
  public init(
    state: BreakerState, mode: BreakerMode, retryAfter: Duration?, reason: String? = nil
  ) {
    self.state = state
    self.mode = mode
    self.retryAfter = retryAfter
    self.reason = reason
  }
}

/// The answer to a request.
package enum Decision<Grant> {
  case permitted(Grant)
  case rejected(Rejection)

  /// The same answer with what is made of the grant.
  package func map<Other>(_ make: (Grant) -> Other) -> Decision<Other> {
    switch self {
    case .permitted(let grant): .permitted(make(grant))
    case .rejected(let rejection): .rejected(rejection)
    }
  }
}

extension Decision: Sendable where Grant: Sendable {}
extension Decision: Equatable where Grant: Equatable {}

/// What can be said to a request without changing anything.
package enum Assessment: Sendable, Hashable {
  case permitted(PermitGrant)
  case rejected(Rejection)

  /// The request itself moves the breaker on, so it has to be made in a transaction.
  case undecided
}

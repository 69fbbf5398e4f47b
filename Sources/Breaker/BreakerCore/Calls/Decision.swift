/// The answer to a request.
package enum Decision<Grant> {
  case permitted(Grant)
  case rejected(Rejection)
}

extension Decision: Sendable where Grant: Sendable {}
extension Decision: Equatable where Grant: Equatable {}

/// The answer that a request can be given without changing anything.
package enum Assessment: Sendable, Hashable {
  case permitted(PermitGrant)
  case rejected(Rejection)

  /// The request would change the breaker, so it needs a transaction.
  case undecided
}

/// The purpose of a permit: an ordinary call or a probe.
///
/// No version adds cases, so a `switch` over a kind needs no `default`.
public enum PermitKind: Sendable, Hashable {
  /// An ordinary call, permitted because the breaker is not rejecting calls.
  case normal

  /// One of the few calls that find out whether the resource has recovered.
  case probe

  /// The name of the kind in JSON.
  public var wireName: String {
    switch self {
    case .normal: "normal"
    case .probe: "probe"
    }
  }
}

/// The core's side of a permit: what it needs to know when the outcome is reported.
package struct PermitGrant: Sendable, Hashable {
  /// A generation that no breaker ever has, so an outcome that carries it changes no state.
  package static let unjudged: Int64 = 0

  package var kind: PermitKind
  package var generation: Int64

  /// The lease of a probe; 0 for a normal permit.
  package var lease: Int64

  /// When the lease of a probe ends.
  package var deadline: Instant?

  /// Whether the call was permitted only because the mode is `observe`.
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

/// Why a call was rejected, and when to try again.
public struct Rejection: Sendable, Hashable {
  /// The state of the breaker at the time.
  public var state: BreakerState

  /// The mode of the breaker at the time.
  public var mode: BreakerMode

  /// When asking again makes sense; nil if that is up to an operator, or to the calls under way.
  ///
  /// This is when the open time or the mode ends. While a probe is under way, it is the time by
  /// which probes usually succeed, or at most a second away if that is unknown or the probe takes
  /// longer. With `jitter`, each caller is told a somewhat later time, so that they do not all come
  /// back at once.
  public var retryAfter: Duration?

  /// Why an operator tripped the breaker or set its mode, if that is what rejects; or that the store cannot be used, if
  /// that is.
  public var reason: String?

  /// The cause: the state or the mode of the breaker, a hold, or its limit.
  public var cause: RejectionCause

  /// Creates a rejection.
  public init(
    state: BreakerState, mode: BreakerMode, retryAfter: Duration?, reason: String? = nil,
    cause: RejectionCause = .open
  ) {
    self.state = state
    self.mode = mode
    self.retryAfter = retryAfter
    self.reason = reason
    self.cause = cause
  }
}

/// The cause of a rejection.
///
/// A later version may add cases, so end a `switch` over a cause with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum RejectionCause: String, Sendable, Hashable, CaseIterable {
  /// The breaker is not closed, or its mode says so.
  case open

  /// The resource has asked to be left alone until an instant, or the first call after that is under way.
  case held

  /// As many calls are under way as have succeeded since a close or a hold, and one more (`ramp-up`).
  case ramping

  /// As many calls are under way as `max-concurrent` permits, and the caller could not wait, or has
  /// waited for as long as it may.
  case busy

  /// As many calls have begun in the last interval as `rate` permits, and the caller could not wait for so long.
  case rate

  /// The call is a retry, and as many have been sent in the last seconds as `retry-budget` permits.
  case retryBudget = "retry_budget"
}

extension Rejection {
  /// The rejection with a longer wait, so that many callers do not all come back at once.
  ///
  /// The wait grows by at most this share; `draw`, from 0 up to 1, chooses how much of it.
  package func spread(by jitter: BreakerPolicy.Rate, draw: Double) -> Rejection {
    var rejection = self
    rejection.retryAfter = retryAfter.map {
      .nanoseconds(
        Self.spread($0.inNanoseconds, byPartsPerMillion: jitter.partsPerMillion, draw: draw))
    }
    return rejection
  }

  /// Spreads a time in nanoseconds.
  package static func spread(
    _ nanoseconds: Int64, byPartsPerMillion jitter: Int64, draw: Double
  ) -> Int64 {
    let longer = Double(nanoseconds) * (Double(jitter) / 1_000_000) * draw
    return nanoseconds.addingSaturating(Int64(longer))
  }
}

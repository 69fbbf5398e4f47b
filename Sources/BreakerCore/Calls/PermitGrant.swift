/// What a permit is for.
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

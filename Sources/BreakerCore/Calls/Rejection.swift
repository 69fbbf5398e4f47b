/// Why a call was rejected, and when to try again.
public struct Rejection: Sendable, Hashable {
  /// The state of the breaker at the time.
  public var state: BreakerState

  /// The mode of the breaker at the time.
  public var mode: BreakerMode

  /// How long to wait before the answer can change; nil if that is up to an operator.
  ///
  /// While a probe is under way, this is when its lease ends. The probe may end much sooner, or its
  /// lease may be renewed.
  public var retryAfter: Duration?

  /// Why the mode was set, if the mode is what rejects.
  public var reason: String?

  /// Creates a rejection.
  public init(
    state: BreakerState, mode: BreakerMode, retryAfter: Duration?, reason: String? = nil
  ) {
    self.state = state
    self.mode = mode
    self.retryAfter = retryAfter
    self.reason = reason
  }
}

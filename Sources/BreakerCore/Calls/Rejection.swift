/// Why a call was rejected, and when to try again.
public struct Rejection: Sendable, Hashable {
  /// The state of the breaker at the time.
  public var state: BreakerState

  /// The mode of the breaker at the time.
  public var mode: BreakerMode

  /// When asking again makes sense; nil if that is up to an operator.
  ///
  /// That is when the open time or the mode ends. While a probe is under way, it is when probes
  /// usually have succeeded, or within a second if that is not known or the probe takes longer.
  /// With `jitter`, each caller is told a somewhat later time, so that not all come back at once.
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

extension Rejection {
  /// The rejection as one of many callers is told it, so that not all of them come back at once.
  ///
  /// The time is longer by that share at most; `draw`, from 0 up to 1, says by how much of it.
  package func spread(by jitter: BreakerPolicy.Rate, draw: Double) -> Rejection {
    var rejection = self
    rejection.retryAfter = retryAfter.map {
      .nanoseconds(
        Self.spread($0.inNanoseconds, byPartsPerMillion: jitter.partsPerMillion, draw: draw))
    }
    return rejection
  }

  /// The same for a time in nanoseconds.
  package static func spread(
    _ nanoseconds: Int64, byPartsPerMillion jitter: Int64, draw: Double
  ) -> Int64 {
    let longer = Double(nanoseconds) * (Double(jitter) / 1_000_000) * draw
    return nanoseconds.addingSaturating(Int64(longer))
  }
}

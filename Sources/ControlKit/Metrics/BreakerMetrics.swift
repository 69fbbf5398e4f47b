import SharedBreaker

/// The metrics of each breaker.
enum BreakerMetrics {
  static let families: [MetricFamily<BreakerSnapshot>] = [
    .init(.gauge, "state", "Whether the breaker is in this state.") { breaker in
      BreakerState.allCases.map {
        Sample(breaker.state == $0, ["name": breaker.name, "state": $0.wireName])
      }
    },
    .init(.gauge, "mode", "Whether the breaker has this mode.") { breaker in
      BreakerMode.allCases.map {
        Sample(breaker.mode == $0, ["name": breaker.name, "mode": $0.wireName])
      }
    },
    .init(
      .gauge, "mode_remaining_seconds", "How long the mode will hold; left out if it has no end."
    ) { breaker in
      breaker.modeEndsIn.map { [Sample($0, ["name": breaker.name])] } ?? []
    },
    .init(.gauge, "permitted", "Whether the breaker would permit a call now.") {
      [Sample($0.permits, ["name": $0.name])]
    },
    .init(.gauge, "probes_in_flight", "Probes that are under way.") {
      [Sample($0.probesUnderWay, ["name": $0.name])]
    },
    .init(.gauge, "consecutive_failures", "Failures with no success between them.") {
      [Sample($0.consecutiveFailures, ["name": $0.name])]
    },
    .init(
      .gauge, "last_transition_timestamp_seconds",
      "When the state last changed, or when the breaker was created if it never did."
    ) { breaker in
      guard let time = breaker.changedAt ?? breaker.createdAt else { return [] }
      return [Sample(time.sinceEpoch, ["name": breaker.name])]
    },
    .init(
      .counter, "transitions_total", "How often the breaker entered this state from another one."
    ) { breaker in
      BreakerState.allCases.map {
        Sample(breaker.transitions[$0], ["name": breaker.name, "to": $0.wireName])
      }
    },
    .init(.counter, "state_seconds_total", "How long the breaker has been in this state.") {
      breaker in
      BreakerState.allCases.map {
        Sample(settledTime(in: $0, of: breaker), ["name": breaker.name, "state": $0.wireName])
      }
    },
    .init(.counter, "calls_total", "Calls that were permitted, by outcome.") { breaker in
      let totals = breaker.totals
      return [
        Sample(totals.successes, ["name": breaker.name, "outcome": "success"]),
        Sample(totals.failures, ["name": breaker.name, "outcome": "failure"]),
        Sample(totals.ignored, ["name": breaker.name, "outcome": "ignored"]),
      ]
    },
    .init(.counter, "slow_calls_total", "Calls that took at least slow-after.") {
      [Sample($0.totals.slow, ["name": $0.name])]
    },
    .init(.counter, "rejections_total", "Calls that were rejected.") {
      [Sample($0.totals.rejections, ["name": $0.name])]
    },
    .init(
      .counter, "observed_rejections_total", "Calls that only the mode observe let through."
    ) {
      [Sample($0.totals.wouldReject, ["name": $0.name])]
    },
  ]

  /// How long a breaker has been in a state, without time that a later look could take back.
  ///
  /// A change of state that is being written now has already read the clock, and ends the state a
  /// little earlier than this look assumes. Prometheus takes a counter that goes back for one that
  /// was reset, so the last second of the present state is left to the next look.
  private static func settledTime(
    in state: BreakerState, of breaker: BreakerSnapshot
  ) -> Duration {
    let time = breaker.timeInStates[state]
    return state == breaker.state ? time - min(breaker.timeInState, .seconds(1)) : time
  }
}

extension BreakerTimestamp {
  /// The seconds since 1970, as Prometheus counts time.
  var sinceEpoch: Duration { .milliseconds(max(0, millisecondsSince1970)) }
}

import Glibc
import ProgramKit
import SharedBreaker

/// The figures of a store as a whole.
struct StoreFigures: Sendable {
  /// When the figures were taken.
  var now: BreakerTimestamp

  /// How many breakers there are; nil if the store is unavailable.
  var breakers: Int?

  /// How many of the requested breakers are left out.
  var leftOut = 0

  /// The fleet that the store belongs to; nil if it belongs to none.
  var fleet: FleetFigures?

  /// The length of each file.
  var files: [File] = []

  struct File: Sendable, Hashable {
    var name: String
    var bytes: Int64
  }

  /// The lengths of those files of a store that exist.
  static func files(of path: String) -> [File] {
    let suffixes: KeyValuePairs = [
      "database": "", "log": "-wal", "counters": "-counters", "slots": "-slots",
    ]
    return suffixes.compactMap { name, suffix in
      var status = stat()
      guard unsafe stat(path + suffix, &status) == 0 else { return nil }
      return File(name: name, bytes: Int64(status.st_size))
    }
  }
}

/// The metrics of the store.
enum StoreMetrics {
  static let families: [MetricFamily<StoreFigures>] = [
    .init(.gauge, "build_info", "Always 1; the versions of cbctl and of SQLite.") { _ in
      [Sample(1, ["version": ControlKit.version, "sqlite": SharedStore.sqliteVersion])]
    },
    .init(.gauge, "collected_timestamp_seconds", "When these metrics were written.") {
      [Sample($0.now.sinceEpoch)]
    },
    .init(.gauge, "store_up", "Whether the store could be read.") {
      [Sample($0.breakers != nil)]
    },
    .init(.gauge, "store_size_bytes", "The size of each file of the store.") { store in
      store.files.map { Sample($0.bytes, ["file": $0.name]) }
    },
    .init(.gauge, "store_breakers", "How many breakers the store has.") { store in
      store.breakers.map { [Sample(Int64($0))] } ?? []
    },
    .init(
      .gauge, "store_breakers_left_out", "How many of the requested breakers --limit has left out."
    ) { store in
      store.breakers == nil ? [] : [Sample(Int64(store.leftOut))]
    },
  ]
}

/// The metrics of each breaker.
enum BreakerMetrics {
  static let families: [MetricFamily<BreakerSnapshot>] =
    [
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
      .init(
        .gauge, "mode_set_timestamp_seconds",
        "When the mode was set, and by whom; left out if it is automatic."
      ) { breaker in
        guard let time = breaker.modeSetAt else { return [] }
        let author = breaker.modeSetBy ?? ""
        return [
          Sample(
            time.sinceEpoch,
            ["name": breaker.name, "mode": breaker.mode.wireName, "set_by": author])
        ]
      },
      .init(.gauge, "permitted", "Whether the breaker would permit a call now.") {
        [Sample($0.permits, ["name": $0.name])]
      },
      .init(.gauge, "probes_in_flight", "Probes that are under way.") {
        [Sample($0.probesInFlight, ["name": $0.name])]
      },
      .init(.gauge, "consecutive_failures", "Failures with no success between them.") {
        [Sample($0.consecutiveFailures, ["name": $0.name])]
      },
      .init(
        .gauge, "flapping",
        "Whether the breaker flaps: \(FlappingWords.rule)."
      ) {
        [Sample($0.isFlapping, ["name": $0.name])]
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
    ] + limits + holds + rates + retries

  /// Of breakers whose resource has asked to be left alone at least once.
  private static let holds: [MetricFamily<BreakerSnapshot>] = [
    .init(
      .gauge, "hold_seconds", "How much longer calls are held; 0 if they are not."
    ) { breaker in
      guard breaker.isOrWasHeld else { return [] }
      return [Sample(breaker.hold?.endsIn ?? .zero, ["name": breaker.name])]
    },
    .init(
      .gauge, "hold_since_timestamp_seconds", "When the hold began; left out if there is none."
    ) { breaker in
      breaker.hold.map { hold in
        [
          Sample(
            .milliseconds(hold.since.millisecondsSince1970), ["name": breaker.name])
        ]
      } ?? []
    },
    .init(
      .counter, "holds_total", "Calls whose outcome asked to leave the resource alone."
    ) { breaker in
      breaker.isOrWasHeld ? [Sample(breaker.totals.holds, ["name": breaker.name])] : []
    },
    .init(
      .counter, "held_rejections_total", "Calls that a hold turned away."
    ) { breaker in
      breaker.isOrWasHeld ? [Sample(breaker.totals.held, ["name": breaker.name])] : []
    },
    .init(
      .gauge, "ramp_seconds", "How much longer few calls go at once, after a close or a hold."
    ) { breaker in
      guard breaker.policy.rampUp != nil else { return [] }
      return [Sample(breaker.ramp?.endsIn ?? .zero, ["name": breaker.name])]
    },
    .init(
      .counter, "ramping_rejections_total", "Calls that a ramp turned away."
    ) { breaker in
      guard breaker.policy.rampUp != nil || breaker.totals.ramping > 0 else { return [] }
      return [Sample(breaker.totals.ramping, ["name": breaker.name])]
    },
  ]

  /// Of breakers with a rate.
  private static let rates: [MetricFamily<BreakerSnapshot>] = [
    .init(
      .gauge, "rate_calls", "How many calls rate permits to begin in its interval."
    ) { breaker in
      breaker.policy.rate.map { [Sample(Int64($0.calls), ["name": breaker.name])] } ?? []
    },
    .init(
      .gauge, "rate_interval_seconds", "The interval of rate."
    ) { breaker in
      breaker.policy.rate.map { [Sample($0.interval, ["name": breaker.name])] } ?? []
    },
    .init(
      .gauge, "rate_begun_calls", "Calls that have begun in the interval that ends now."
    ) { breaker in
      breaker.rate.map { [Sample(Int64($0.begun), ["name": breaker.name])] } ?? []
    },
    .init(
      .counter, "rate_rejections_total", "Calls that rate turned away."
    ) { breaker in
      guard breaker.policy.rate != nil || breaker.totals.overRate > 0 else { return [] }
      return [Sample(breaker.totals.overRate, ["name": breaker.name])]
    },
  ]

  /// Of breakers with a budget for retries.
  private static let retries: [MetricFamily<BreakerSnapshot>] = [
    .init(
      .counter, "retries_total", "Calls that were sent again under retry-budget."
    ) { breaker in
      guard breaker.policy.retryBudget != nil || breaker.totals.retries > 0 else { return [] }
      return [Sample(breaker.totals.retries, ["name": breaker.name])]
    },
    .init(
      .counter, "refused_retries_total", "Calls that retry-budget did not permit to send again."
    ) { breaker in
      guard breaker.policy.retryBudget != nil || breaker.totals.overBudget > 0 else { return [] }
      return [Sample(breaker.totals.overBudget, ["name": breaker.name])]
    },
  ]

  /// Of breakers with a limit; those without one have no samples of these.
  private static let limits: [MetricFamily<BreakerSnapshot>] = [
    .init(
      .gauge, "limit_units", "How many units of work max-concurrent permits to be under way."
    ) { breaker in
      breaker.policy.maxConcurrent.map { [Sample(Int64($0), ["name": breaker.name])] } ?? []
    },
    .init(
      .gauge, "units_in_use", "How many units of work are under way; left out if nobody knows."
    ) { breaker in
      breaker.limit.map { [Sample(Int64($0.unitsInUse), ["name": breaker.name])] } ?? []
    },
    .init(
      .gauge, "callers_waiting", "How many callers wait for room; left out if nobody knows."
    ) { breaker in
      breaker.limit.map { [Sample(Int64($0.waiting), ["name": breaker.name])] } ?? []
    },
    .init(
      .histogram, "wait_seconds", "How long callers have waited for room that have had their turn."
    ) { breaker in
      breaker.limit.map { histogram(of: $0.waits, ["name": breaker.name]) } ?? []
    },
    .init(
      .counter, "abandoned_waits_total", "Callers that have waited for room and left without it."
    ) { breaker in
      breaker.limit.map { [Sample($0.waits.abandoned, ["name": breaker.name])] } ?? []
    },
    .init(
      .counter, "busy_rejections_total", "Calls that were rejected because there was no room."
    ) { breaker in
      guard breaker.policy.maxConcurrent != nil || breaker.totals.busy > 0 else { return [] }
      return [Sample(breaker.totals.busy, ["name": breaker.name])]
    },
    .init(
      .counter, "lost_calls_total", "Calls that were under way when their process ended."
    ) { breaker in
      guard breaker.policy.maxConcurrent != nil || breaker.totals.lostCalls > 0 else { return [] }
      return [Sample(breaker.totals.lostCalls, ["name": breaker.name])]
    },
  ]

  private static func histogram(
    of waits: LimitSnapshot.Waits, _ labels: KeyValuePairs<String, String>
  ) -> [Sample] {
    var count: Int64 = 0
    var samples = waits.buckets.map { bucket -> Sample in
      count += bucket.count
      return Sample(count, labels).bucket(atMost: bucket.atMost)
    }
    samples.append(Sample(waits.total, labels).part(.sum))
    samples.append(Sample(count, labels).part(.count))
    return samples
  }

  /// How long a breaker has been in a state, not counting the last second of the present state.
  ///
  /// A change of state that is being written now has already read the clock, and ends the state a
  /// little earlier than this snapshot assumes. Prometheus mistakes a counter that goes back for one
  /// that was reset, so the last second is counted in the next scrape.
  private static func settledTime(
    in state: BreakerState, of breaker: BreakerSnapshot
  ) -> Duration {
    let time = breaker.timeInStates[state]
    return state == breaker.state ? time - min(breaker.timeInState, .seconds(1)) : time
  }
}

extension BreakerTimestamp {
  /// The seconds since 1970, as Prometheus counts time.
  fileprivate var sinceEpoch: Duration { .milliseconds(max(0, millisecondsSince1970)) }
}

/// The figures of the fleet that a store belongs to.
struct FleetFigures: Sendable, Hashable {
  var fleet: String
  var isRelayRunning: Bool
  var isConnected: Bool

  /// How many commands have yet to reach the other hosts.
  var waiting: Int64

  /// How many of these commands the relay cannot pass on for now.
  var refused: Int64 = 0

  /// How many hosts the fleet has, and how many of them are silent; nil if the relay does not know.
  var hosts: Int64?
  var silentHosts: Int64?

  /// How long the latest message of another host took to arrive.
  var lag: Duration?

  /// By how much this host's clock is ahead of the server's.
  var skew: Duration?

  /// How many messages this host has refused since its relay began, and how many of them were not
  /// signed; nil if the relay does not answer.
  var refusedMessages: Int64?
  var unproven: Int64?
}

extension FleetFigures {
  /// Combines what the store knows with the relay's answer, if there is one.
  init(_ standing: FleetStanding, _ status: RelayStatus?) {
    self.init(
      fleet: standing.fleet, isRelayRunning: standing.isRelayRunning,
      isConnected: standing.isConnected, waiting: Int64(standing.waiting),
      refused: Int64(standing.refused))
    refusedMessages = status?.refused
    unproven = status?.unproven
    guard let status, status.isConnected else { return }
    hosts = status.hosts.map { Int64($0.count) }
    silentHosts = status.hosts.map { Int64($0.count(where: \.isSilent)) }
    lag = status.lag
    skew = status.skew
  }
}

/// The metrics of a fleet; a store without a fleet has no samples of them.
enum FleetMetrics {
  static let families: [MetricFamily<StoreFigures>] = [
    family("relay_running", "Whether the relay of this host runs.") {
      Sample($0.isRelayRunning, $1)
    },
    family("connected", "Whether the relay has reached Redis since it began, and still does.") {
      Sample($0.isConnected, $1)
    },
    family("waiting_commands", "Commands of this host that have yet to reach the others.") {
      Sample($0.waiting, $1)
    },
    family("refused_commands", "Commands of this host that cannot go out to the others.") {
      Sample($0.refused, $1)
    },
    family(
      "refused_messages", "Messages of others that this host has refused since its relay began."
    ) { figures, label in
      figures.refusedMessages.map { Sample($0, label) }
    },
    family("unproven_messages", "Those of them that are not signed with a key of the fleet.") {
      figures, label in
      figures.unproven.map { Sample($0, label) }
    },
    family("hosts", "How many hosts the fleet has, with those that are silent.") { figures, label in
      figures.hosts.map { Sample($0, label) }
    },
    family("silent_hosts", "How many hosts of the fleet have gone silent.") { figures, label in
      figures.silentHosts.map { Sample($0, label) }
    },
    family("lag_seconds", "How far the relay is behind what other hosts have said.") {
      figures, label in
      figures.lag.map { Sample($0, label) }
    },
    family("clock_skew_seconds", "How far this host's clock is ahead of the server's.") {
      figures, label in
      figures.skew.map { Sample($0, label) }
    },
  ]

  private static func family(
    _ name: String, _ help: String,
    _ sample: @escaping @Sendable (FleetFigures, KeyValuePairs<String, String>) -> Sample?
  ) -> MetricFamily<StoreFigures> {
    MetricFamily(.gauge, "fleet_\(name)", help) { store in
      store.fleet.flatMap { sample($0, ["fleet": $0.fleet]) }.map { [$0] } ?? []
    }
  }
}

extension CommandContext {
  /// The figures of the store's fleet; nil if it belongs to none.
  ///
  /// A scrape waits for the relay a tenth as long as a person does, and then omits its figures.
  func fleetFigures() throws(ControlError) -> FleetFigures? {
    guard let standing = try fleetStanding() else { return nil }
    guard standing.isRelayRunning else { return FleetFigures(standing, nil) }
    let client = RelayClient(store: store.path, patience: console.relayPatience / 10)
    do throws(RelaySilence) { return FleetFigures(standing, try client.status(.figures)) } catch {
      return FleetFigures(standing, nil)
    }
  }
}

extension BreakerSnapshot {
  /// Whether its resource has ever asked to be left alone; other breakers have no samples of holds.
  fileprivate var isOrWasHeld: Bool { hold != nil || totals.holds > 0 || totals.held > 0 }
}

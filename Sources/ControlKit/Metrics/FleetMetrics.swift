import ProgramKit
import SharedBreaker

/// The figures of the fleet that a store belongs to.
struct FleetFigures: Sendable, Hashable {
  var fleet: String
  var isRelayRunning: Bool
  var isConnected: Bool

  /// How many commands have yet to reach the other hosts.
  var waiting: Int64

  /// How many hosts the fleet has, and how many of them are silent; nil if the relay does not say.
  var hosts: Int64?
  var silentHosts: Int64?

  /// How far the relay is behind what other hosts have said.
  var lag: Duration?
}

extension FleetFigures {
  /// Puts together what the store knows and what the relay says, if it says anything.
  init(_ standing: FleetStanding, _ status: RelayStatus?) {
    self.init(
      fleet: standing.fleet, isRelayRunning: standing.isRelayRunning,
      isConnected: standing.isConnected, waiting: Int64(standing.waiting))
    guard let status, status.isConnected else { return }
    hosts = status.hosts.map { Int64($0.count) }
    silentHosts = status.hosts.map { Int64($0.count(where: \.isSilent)) }
    lag = status.lag
  }
}

/// The metrics of a fleet, of which a store without one has no samples.
enum FleetMetrics {
  static let families: [MetricFamily<StoreFigures>] = [
    family("relay_running", "Whether the relay of this host runs.") {
      Sample($0.isRelayRunning, $1)
    },
    family("connected", "Whether the relay is connected to Redis.") { Sample($0.isConnected, $1) },
    family("waiting_commands", "Commands of this host that have yet to reach the others.") {
      Sample($0.waiting, $1)
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
  /// A scrape waits for the relay a tenth as long as a person does, and goes on without its answer.
  func fleetFigures() throws(ControlError) -> FleetFigures? {
    guard let standing = try fleetStanding() else { return nil }
    guard standing.isRelayRunning else { return FleetFigures(standing, nil) }
    let client = RelayClient(store: store.path, patience: console.relayPatience / 10)
    do throws(RelaySilence) { return FleetFigures(standing, try client.status(.figures)) } catch {
      return FleetFigures(standing, nil)
    }
  }
}

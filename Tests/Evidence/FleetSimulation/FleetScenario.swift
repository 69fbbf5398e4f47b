import BreakerCore

/// The setup of a fleet, and its course.
struct FleetScenario {
  var hosts: Int
  var quorum: FleetQuorum?

  /// `fleet-spread`, in nanoseconds; 0 if it is off.
  var spread: Int64 = 0

  /// Whether hosts stay quiet that others already know enough about.
  var isSuppressed = true

  /// How many hosts have the trouble.
  var sick: Int

  /// The times during which these hosts have the trouble.
  var troubles: [Range<Int64>]

  static let second: Int64 = 1_000_000_000

  /// How long a call takes that fails or succeeds.
  static let callTime = second / 20

  /// The time between two calls of a host, on average: a third of the hosts is busy, a third less so,
  /// and a third quiet.
  static func callGap(of host: Int) -> Int64 { [second / 10, second, 10 * second][host % 3] }

  /// The policy of every host; what is not about the fleet is the default, but for the jitter, without
  /// which hosts that have opened together go on probing together.
  var policy: BreakerPolicy {
    BreakerPolicy(
      jitter: 0.2, fleetQuorum: quorum, fleetSpread: spread == 0 ? nil : .nanoseconds(spread))
  }

  func isDown(for host: Int, at time: Int64) -> Bool {
    host < sick && troubles.contains { $0.contains(time) }
  }

  /// When the next trouble of a host begins; nil if it has none any more.
  func nextTrouble(of host: Int, after time: Int64) -> Int64? {
    guard host < sick else { return nil }
    return troubles.map(\.lowerBound).filter { $0 > time }.min()
  }

  var end: Int64 { troubles.map(\.upperBound).max() ?? 0 }

  /// The resource is down for 100 seconds, for every host.
  static func outage(
    hosts: Int, quorum: FleetQuorum?, spread: Int64 = 0, isSuppressed: Bool = true
  ) -> FleetScenario {
    FleetScenario(
      hosts: hosts, quorum: quorum, spread: spread, isSuppressed: isSuppressed, sick: hosts,
      troubles: [0..<100 * second])
  }

  /// Some hosts cannot reach the resource, for five minutes.
  static func sickHosts(_ sick: Int, in hosts: Int, quorum: FleetQuorum) -> FleetScenario {
    FleetScenario(
      hosts: hosts, quorum: quorum, spread: second, sick: sick, troubles: [0..<300 * second])
  }

  /// One host cannot reach the resource for every other five seconds, for five minutes.
  static func flappingHost(in hosts: Int, quorum: FleetQuorum) -> FleetScenario {
    let troubles = (0..<30).map { Int64($0) * 10 * second..<(Int64($0) * 10 + 5) * second }
    return FleetScenario(hosts: hosts, quorum: quorum, spread: second, sick: 1, troubles: troubles)
  }
}

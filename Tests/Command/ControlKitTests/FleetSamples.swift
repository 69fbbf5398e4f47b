import ProgramKit
import SharedBreaker

@testable import ControlKit

/// Fleets made by hand, as relays describe them.
enum FleetSamples {
  /// A relay's answer about a fleet of four hosts, one of which is silent.
  static let document = document(hosts: hosts)

  static func document(
    hosts: String, isConnected: Bool = true, problem: String = "null"
  ) -> String {
    """
    {"version":1,"fleet":"prod","host":"host-a","connected":\(isConnected),\
    "since":"2026-09-18T10:00:00.000Z","problem":\(problem),\
    "lag_ms":\(isConnected ? "3" : "null"),"waiting":2,"applied":12,"refused":1,"hosts":\(hosts)}

    """
  }

  private static let hosts = """
    [{"host":"host-b","silent_ms":400,"is_silent":false,"breakers":[\
    {"name":"payments","state":"open","mode":"automatic","open_ends_in_ms":1200,"trips":4},\
    {"name":"mirror","state":"open","mode":"automatic","open_ends_in_ms":0,"trips":1},\
    {"name":"search","state":"closed","mode":"automatic","open_ends_in_ms":null,"trips":0}]},\
    {"host":"host-a","silent_ms":0,"is_silent":false,"breakers":[\
    {"name":"payments","state":"open","mode":"automatic","open_ends_in_ms":28000,"trips":1},\
    {"name":"search","state":"closed","mode":"automatic","open_ends_in_ms":null,"trips":2}]},\
    {"host":"host-c","silent_ms":900,"is_silent":false,"breakers":[\
    {"name":"payments","state":"half_open","mode":"automatic","open_ends_in_ms":null,"trips":3},\
    {"name":"mirror","state":"closed","mode":"forced_open","open_ends_in_ms":null,"trips":0}]},\
    {"host":"host-d","silent_ms":750000,"is_silent":true,"breakers":[\
    {"name":"payments","state":"open","mode":"automatic","open_ends_in_ms":0,"trips":1}]}]
    """

  /// The present, three days and four hours after the relay has connected.
  static let now =
    BreakerTimestamp("2026-09-21T14:23:20.000Z")
    ?? BreakerTimestamp(
      millisecondsSince1970: 0)

  /// The figures of the fleet of four hosts.
  static let figures = FleetFigures(
    fleet: "prod", isRelayRunning: true, isConnected: true, waiting: 2, refused: 1, hosts: 4,
    silentHosts: 1, lag: .milliseconds(3), skew: .seconds(90), refusedMessages: 9, unproven: 7)

  /// A fleet of many hosts: payments is open on some, and search is forced open on all but a few.
  static func large(hosts count: Int = 20) -> RelayStatus {
    var status = RelayStatus(
      fleet: "prod", host: "web-01.example.net", isConnected: true, since: nil, problem: nil,
      lag: .milliseconds(3), waiting: 0, applied: 0, refused: 0)
    var hosts: [RelayStatus.Host] = []
    for number in 1...count {
      let name = "web-\(number < 10 ? "0" : "")\(number).example.net"
      hosts.append(
        .init(
          name: name, silence: .milliseconds(300), isSilent: false,
          breakers: [
            standing("payments", number % 7 == 1 ? "open" : "closed", openEndsIn: .seconds(9)),
            standing("search", "closed", mode: number > 3 ? "forced_open" : "observe"),
            standing("mail", "closed"), standing("mirror", "half_open"),
            standing(
              "a-name-that-is-so-long-that-no-terminal-has-room-for-it-beside-others",
              number == 2 ? "half_open" : "closed"),
          ]))
    }
    status.hosts = hosts
    return status
  }

  static func standing(
    _ name: String, _ state: String, mode: String = "automatic", openEndsIn: Duration? = nil
  ) -> RelayStatus.Standing {
    .init(
      name: name, state: state, mode: mode, openEndsIn: state == "open" ? openEndsIn : nil,
      trips: 0)
  }
}

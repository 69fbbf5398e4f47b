import BreakerCore

/// The tables of the guide, as Markdown.
struct Tables {
  /// The largest fleet to have a row.
  var limit: Int

  private func sizes(_ all: Int...) -> [Int] { all.filter { $0 <= limit } }

  private static let second = FleetScenario.second
  private static let quorums: [(text: String, FleetQuorum?)] = [
    ("none", nil), ("3", .hosts(3)), ("1%", share(1)), ("30%", share(30)),
  ]

  private static func share(_ percent: Int64) -> FleetQuorum {
    .share(BreakerPolicy.Rate(partsPerMillion: percent * 10_000))
  }

  var text: String {
    [idle, confirming, outage, recovery, suppression, oneHost, sickQuorum].joined(separator: "\n")
  }

  private func table(_ heads: [String], _ rows: [[String]]) -> String {
    let lines = [heads, heads.map { _ in "---" }] + rows
    return lines.map { "| " + $0.joined(separator: " | ") + " |\n" }.joined()
  }

  private var idle: String {
    table(
      ["hosts", "a beat every", "requests a second, idle"],
      sizes(10, 100, 1_000, 10_000).map { hosts in
        [
          count(hosts), seconds(Beat.interval(of: hosts)), count(Beat.requestsASecond(of: hosts)),
        ]
      })
  }

  private var confirming: String {
    table(
      [
        "hosts", "half have confirmed after", "all",
        "all, if one in a hundred has to connect again",
      ],
      sizes(10, 100, 500, 1_000, 10_000).map { hosts in
        let times = Confirming(hosts: hosts).times()
        return [
          count(hosts), seconds(times[hosts / 2]), seconds(times.last),
          seconds(Confirming(hosts: hosts, lost: 10).times().last),
        ]
      })
  }

  private var outage: String {
    var rows: [[String]] = []
    for hosts in sizes(10, 100, 1_000, 10_000) {
      for (text, quorum) in Self.quorums {
        let figures = Simulation.run(
          .outage(hosts: hosts, quorum: quorum, spread: quorum == nil ? 0 : Self.second))
        rows.append([
          count(hosts), text, count(figures.messages), count(figures.deliveries),
          count(figures.busiestSecond), seconds(figures.allOpen),
          tenths(figures.failedCalls, hosts),
        ])
      }
    }
    return table(
      [
        "hosts", "`fleet-quorum`", "messages", "deliveries", "requests in the busiest second",
        "all open after", "failed calls a host",
      ], rows)
  }

  private var recovery: String {
    var rows: [[String]] = []
    for hosts in sizes(100, 10_000) {
      for (text, spread) in [("off", 0), ("1s", 1), ("10s", 10)] as [(String, Int64)] {
        let figures = Simulation.run(
          .outage(hosts: hosts, quorum: .hosts(3), spread: spread * Self.second))
        rows.append([
          count(hosts), text, count(figures.messages), seconds(figures.allClosed),
          count(figures.probesInASecond),
        ])
      }
    }
    return table(
      [
        "hosts", "`fleet-spread`", "messages", "all closed after",
        "most probes of the fleet in a second",
      ], rows)
  }

  private var suppression: String {
    var rows: [[String]] = []
    for hosts in sizes(100, 1_000, 10_000) {
      for (text, quorum) in Self.quorums.dropFirst() {
        let all = [false, true].map { isSuppressed in
          Simulation.run(
            .outage(
              hosts: hosts, quorum: quorum, spread: Self.second, isSuppressed: isSuppressed))
        }
        rows.append(
          [count(hosts), text] + all.flatMap { [count($0.messages), count($0.deliveries)] })
      }
    }
    return table(
      [
        "hosts", "`fleet-quorum`", "messages if every host tells", "deliveries",
        "messages", "deliveries",
      ], rows)
  }

  private var oneHost: String {
    var rows: [[String]] = []
    for hosts in sizes(10, 100, 1_000, 10_000) {
      for (text, quorum) in Self.quorums {
        guard let quorum else { continue }
        let all = [
          Simulation.run(.sickHosts(1, in: hosts, quorum: quorum)),
          Simulation.run(.flappingHost(in: hosts, quorum: quorum)),
        ]
        rows.append(
          [count(hosts), text] + all.flatMap { [count($0.messages), count($0.suspicions)] })
      }
    }
    return table(
      [
        "hosts", "`fleet-quorum`", "messages of a sick host", "suspicions", "of one that flaps",
        "suspicions",
      ], rows)
  }
}

/// Hosts that are sick together.
extension Tables {
  private var sickQuorum: String {
    table(
      ["hosts", "sick", "messages", "suspicions, each other host", "other hosts that opened"],
      sizes(10, 100, 1_000, 10_000).map { hosts in
        let figures = Simulation.run(.sickHosts(3, in: hosts, quorum: .hosts(3)))
        return [
          count(hosts), "3", count(figures.messages), tenths(figures.suspicions, hosts - 3),
          count(figures.opened - 3),
        ]
      })
  }
}

/// Numbers as the tables have them.
extension Tables {
  private func count(_ number: Int) -> String {
    let digits = String(number)
    var text = ""
    for (place, digit) in digits.enumerated() {
      if place > 0, (digits.count - place).isMultiple(of: 3) { text += "," }
      text.append(digit)
    }
    return text
  }

  private func seconds(_ time: Int64?) -> String {
    guard let time else { return "-" }
    let tenths = (time + Self.second / 20) / (Self.second / 10)
    return "\(tenths / 10).\(tenths % 10) s"
  }

  private func tenths(_ number: Int, _ parts: Int) -> String {
    let tenths = (20 * number + parts) / (2 * parts)
    return "\(tenths / 10).\(tenths % 10)"
  }
}

import BreakerDocuments
import ProgramKit
import SharedBreaker

/// The output of `fleet status` about a fleet whose relay is connected.
struct FleetText {
  var status: RelayStatus
  var overview: FleetOverview

  /// The latest commands to the breakers that were asked for by their names.
  var commands: [NamedConfirmations] = []

  /// The present, for how long the relay has been connected.
  var now: BreakerTimestamp

  /// The page for a terminal.
  func page(width: Int, painter: Painter) -> String {
    [
      title(painter), breakers(width: width, painter: painter), commands(width: width, painter),
      silent(width: width, painter), different(width: width, painter), relay(width: width),
    ].compactMap { $0 }.joined(separator: "\n")
  }

  private func title(_ painter: Painter) -> String {
    let count = CountedNoun.text(overview.hosts.count + overview.silent.count, "host")
    let silent = overview.silent.isEmpty ? "" : ", \(overview.silent.count) silent"
    let name = VisibleText.name(status.fleet)
    return painter.paint("Fleet \(name)", .bold) + ": \(count)\(silent)\n"
  }

  /// The breakers: a column for each host if there is room, otherwise lines that count the hosts.
  private func breakers(width: Int, painter: Painter) -> String {
    let rest = overview.usual
    guard !overview.rows.isEmpty else {
      // Hosts do not describe breakers that are closed and automatic, so there may be some.
      let subject = overview.isOfSome ? "What you asked for" : "Every breaker"
      return "\(subject) is closed and automatic on every host.\n"
    }
    let hasRoom = table.render().split(separator: "\n")
      .allSatisfy { TextWidth.of(String($0)) <= width }
    var text = hasRoom ? table.render(painter: painter) : lines(width: width, painter: painter)
    if rest > 0 {
      let more = rest == 1 ? "1 more breaker is" : "\(rest) more breakers are"
      text +=
        "\n\(more) closed and automatic on every host: use --all to list "
        + "\(rest == 1 ? "it" : "them").\n"
    }
    return text
  }

  private var table: Table {
    let titles = ["NAME"] + overview.hosts.map { VisibleText.name($0.name) }
    var table = Table(columns: titles.map { Table.Column(title: $0) })
    table.rows = overview.rows.map { row in
      [Table.Cell(VisibleText.name(row.name), row.isUsual ? nil : .bold)]
        + overview.hosts.indices.map { place in
          guard let standing = row.standings[place] else { return Table.Cell("-") }
          return Table.Cell(standing.words, standing.color)
        }
    }
    return table
  }

  private func lines(width: Int, painter: Painter) -> String {
    let names = overview.rows.map { VisibleText.name($0.name) }
    // A very long name does not indent all the other lines.
    let indent = (names.map(TextWidth.of).filter { $0 <= width / 3 }.max() ?? 0) + 2
    let groups = groups
    let shown = overview.isComplete ? groups[...] : groups.prefix(Self.mostGroups)
    let text = shown.map { group in
      let isAlone = group.names.count == 1
      let shown = overview.isComplete ? group.names[...] : group.names.prefix(3)
      let name = shown.joined(separator: ", ")
      let rest = group.names.count - shown.count
      let more = rest > 0 ? " and \(rest) more" : ""
      var lead = String(repeating: " ", count: indent)
      var lines: [String] = []
      if isAlone {
        lead = name + String(repeating: " ", count: max(2, indent - TextWidth.of(name)))
      } else {
        lines = TextWrap.lines(name + more, width: width)
      }
      for phrase in group.phrases {
        lines += TextWrap.hanging(phrase, after: lead, width: width)
        lead = String(repeating: " ", count: indent)
      }
      let text = lines.joined(separator: "\n")
      return text.replacing(name, with: painter.paint(name, .bold), maxReplacements: 1) + "\n"
    }.joined()
    let rest = groups.dropFirst(shown.count).reduce(0) { $0 + $1.names.count }
    if rest == 0 { return text }
    return text
      + "\n\(CountedNoun.text(rest, "more breaker")) like these: use --all to list them.\n"
  }

  /// How many groups of breakers fit a screen, with the rest of the page.
  private static let mostGroups = 5

  /// The breakers, the worst first; those that stand alike on every host are together.
  private var groups: [(names: [String], phrases: [String])] {
    var groups: [(names: [String], phrases: [String])] = []
    var places: [[String]: Int] = [:]
    for row in overview.rows {
      let phrases = row.phrases(on: overview.hosts)
      if let place = places[phrases] {
        groups[place].names.append(VisibleText.name(row.name))
      } else {
        places[phrases] = groups.count
        groups.append(([VisibleText.name(row.name)], phrases))
      }
    }
    return groups
  }

  private func silent(width: Int, _ painter: Painter) -> String? {
    guard !overview.silent.isEmpty else { return nil }
    guard overview.isComplete || overview.silent.count <= Self.mostHosts else {
      // The ones that went silent last may be what has just happened.
      let latest = overview.silent.sorted { ($0.silence ?? .zero) < ($1.silence ?? .zero) }
        .prefix(Self.mostHosts).map { "\(VisibleText.name($0.name)) \(Self.silence(of: $0))" }
      let more = overview.silent.count - latest.count
      let text = "\(latest.joined(separator: ", ")) and \(more) more: use --all to list them"
      return painter.paint("Silent hosts", .yellow) + "\n"
        + TextWrap.hanging(text, after: "  ", width: width).map { $0 + "\n" }.joined()
    }
    let names = overview.silent.map { VisibleText.name($0.name) }
    let longest = min(names.map(TextWidth.of).max() ?? 0, width / 2)
    let lines = zip(overview.silent, names).map { host, name in
      let spaces = String(repeating: " ", count: max(0, longest - TextWidth.of(name)) + 2)
      return "  \(name)\(spaces)\(Self.silence(of: host))\n"
    }
    return painter.paint("Silent hosts", .yellow) + "\n" + lines.joined()
  }

  /// How many hosts of a kind have a line each.
  private static let mostHosts = 5

  /// Faults of hosts and differences between them: clocks, signatures, keys and versions.
  private func different(width: Int, _ painter: Painter) -> String? {
    let text = differences.map { title, lines in
      let shown = overview.isComplete ? lines[...] : lines.prefix(3)
      let more = lines.count > shown.count ? ["and \(lines.count - shown.count) more"] : []
      return painter.paint(title, .yellow) + "\n"
        + (shown + more).flatMap { TextWrap.hanging($0, after: "  ", width: width) }
        .map { $0 + "\n" }.joined()
    }
    return text.isEmpty ? nil : text.joined(separator: "\n")
  }

  /// The faults and differences as titles and lines.
  var differences: [(title: String, lines: [String])] {
    [("Wrong clocks", skewed), ("Signatures", signatures), ("Versions", versions)]
      .filter { !$0.1.isEmpty }
  }

  private var allHosts: [RelayStatus.Host] { overview.hosts + overview.silent }

  /// The hosts whose clocks differ from the server's by a minute or more, the worst first.
  private var skewed: [String] {
    allHosts.filter { $0.skew.flatMap { ClockSkew.words($0) } != nil }
      .sorted { ClockSkew.length($0.skew) > ClockSkew.length($1.skew) }
      .compactMap { host in
        host.skew.flatMap { ClockSkew.words($0) }
          .map { "\(VisibleText.name(host.name)): \($0) the server's" }
      }
  }

  /// The hosts whose word does not count, and those that sign with another key than this one.
  private var signatures: [String] {
    guard let key = status.keys.first else { return [] }
    var lines: [String] = []
    if status.acceptsUnsigned { lines.append("what is not signed counts here too") }
    let unproven = allHosts.filter { $0.isProven == false }.map(\.name)
    if !unproven.isEmpty {
      lines.append("not signed with a key of this host: \(list(unproven))")
    }
    let others = Dictionary(
      grouping: allHosts.filter { $0.isProven == true && $0.keys.first != key }
    ) { $0.keys.first ?? "" }
    for (other, hosts) in others.sorted(by: { $0.key < $1.key }) {
      let names = list(hosts.map(\.name))
      lines.append("signed with key \(VisibleText.bare(other)), not \(key): \(names)")
    }
    return lines
  }

  /// The versions of relays, the rarest first, if there are several.
  private var versions: [String] {
    let groups = Dictionary(grouping: allHosts.filter { $0.relay != nil }) {
      "cbrelay \(VisibleText.bare($0.relay ?? "")), protocol \($0.speaks)"
    }
    guard groups.count > 1 else { return [] }
    let most = groups.values.map(\.count).max() ?? 0
    return groups.sorted { ($0.value.count, $0.key) < ($1.value.count, $1.key) }.map {
      let hosts = $0.value
      let isUsual = hosts.count == most && most > 3
      return "\($0.key): " + (isUsual ? "\(most) hosts" : list(hosts.map(\.name)))
    }
  }

  private func list(_ names: [String]) -> String {
    FleetOverview.Row.list(names, atMost: overview.isComplete ? names.count : 3)
  }

  /// The latest commands, each with who has carried it out.
  private func commands(width: Int, _ painter: Painter) -> String? {
    let lines = commands.flatMap { $0.lines }
    guard !lines.isEmpty else { return nil }
    return painter.paint("Commands", .bold) + "\n"
      + lines.flatMap { TextWrap.hanging($0, after: "  ", width: width) }.map { $0 + "\n" }
      .joined()
  }

  private static func silence(of host: RelayStatus.Host) -> String {
    host.silence.map { "for \(SpokenDuration.format($0))" } ?? "-"
  }

  private func relay(width: Int) -> String {
    let label = "Relay of this host, \(VisibleText.name(status.host)): "
    return TextWrap.lines(label + relayWords, width: width).map { $0 + "\n" }.joined()
  }

  /// The state of this host's relay, in words.
  var relayWords: String {
    let duration = status.since.map { " for \(Age.short(of: $0, at: now))" } ?? ""
    var words = ["connected" + duration]
    if let lag = status.lag {
      words.append(
        lag == .zero ? "up to date" : "\(SpokenDuration.format(lag)) behind the others")
    }
    switch status.waiting {
    case nil: words.append("how many commands wait is unknown")
    case 0?: words.append("no commands waiting")
    case let waiting?: words.append("\(CountedNoun.text(waiting, "command")) waiting")
    }
    if status.refused > 0 {
      let unproven = status.unproven > 0 ? ", \(status.unproven) of them not signed" : ""
      words.append("\(CountedNoun.text(status.refused, "message")) refused\(unproven)")
    }
    if let key = status.keys.first { words.append("signing with key \(VisibleText.bare(key))") }
    if let obeyed = status.obeyed {
      words.append("obeying \(FleetOverview.Row.list(obeyed)) only")
    }
    return words.joined(separator: ", ")
  }
}

extension FleetText {
  /// The table for programs: a line for each breaker on each host, with one word in each column.
  ///
  /// A host without breakers has a line too, so that a silent host is always listed.
  var plain: String {
    let titles = ["HOST", "SILENT", "NAME", "STATE", "MODE", "RETRY-IN", "TRIPS"]
    var table = Table(
      columns: titles.map {
        Table.Column(title: $0, isRightAligned: ["SILENT", "RETRY-IN", "TRIPS"].contains($0))
      })
    for (place, host) in overview.hosts.enumerated() {
      let standings = overview.rows.compactMap { $0.standings[place] }
      for standing in standings {
        table.rows.append(Self.cells(of: host, standing))
      }
      if standings.isEmpty { table.rows.append(Self.cells(of: host, nil)) }
    }
    for host in overview.silent { table.rows.append(Self.cells(of: host, nil)) }
    return table.render()
  }

  private static func cells(
    of host: RelayStatus.Host, _ standing: RelayStatus.Standing?
  ) -> [Table.Cell] {
    let silence = host.isSilent ? host.silence.map { SpokenDuration.word($0) } ?? "?" : "-"
    let retry = standing?.openEndsIn.map { $0 == .zero ? "due" : SpokenDuration.word($0) }
    return [
      .init(VisibleText.name(host.name)), .init(silence),
      .init(standing.map { VisibleText.name($0.name) } ?? "-"), .init(standing?.state ?? "-"),
      .init(standing?.mode ?? "-"), .init(retry ?? "-"),
      .init(standing.map { String($0.trips) } ?? "-"),
    ]
  }
}

/// How far a host's clock is ahead of the server's.
enum ClockSkew {
  static func length(_ skew: Duration?) -> Duration {
    skew.map { max($0, .zero - $0) } ?? .zero
  }

  /// The words for it; nil if it is less than a minute, which does no harm.
  static func words(_ skew: Duration) -> String? {
    let length = length(skew)
    guard length >= .seconds(60) else { return nil }
    return "\(SpokenDuration.format(length)) \(skew > .zero ? "ahead of" : "behind")"
  }
}

import BreakerDocuments
import ProgramKit
import SharedBreaker

/// What `fleet status` prints about a fleet whose relay is connected.
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
      silent(width: width, painter), skewed(width: width, painter), relay(width: width),
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
    return zip(overview.rows, names).map { row, name in
      var lead = name + String(repeating: " ", count: max(2, indent - TextWidth.of(name)))
      var lines: [String] = []
      for phrase in row.phrases(on: overview.hosts) {
        lines += TextWrap.hanging(phrase, after: lead, width: width)
        lead = String(repeating: " ", count: indent)
      }
      let text = lines.joined(separator: "\n")
      return text.replacing(name, with: painter.paint(name, .bold), maxReplacements: 1) + "\n"
    }.joined()
  }

  private func silent(width: Int, _ painter: Painter) -> String? {
    guard !overview.silent.isEmpty else { return nil }
    let names = overview.silent.map { VisibleText.name($0.name) }
    let longest = min(names.map(TextWidth.of).max() ?? 0, width / 2)
    let lines = zip(overview.silent, names).map { host, name in
      let spaces = String(repeating: " ", count: max(0, longest - TextWidth.of(name)) + 2)
      return "  \(name)\(spaces)\(Self.silence(of: host))\n"
    }
    return painter.paint("Silent hosts", .yellow) + "\n" + lines.joined()
  }

  /// The hosts whose clocks differ from the server's by a minute or more.
  private func skewed(width: Int, _ painter: Painter) -> String? {
    let lines = (overview.hosts + overview.silent).compactMap { host -> String? in
      host.skew.flatMap { ClockSkew.words($0) }
        .map { "\(VisibleText.name(host.name)): \($0) the server's" }
    }
    guard !lines.isEmpty else { return nil }
    return painter.paint("Wrong clocks", .yellow) + "\n"
      + lines.flatMap { TextWrap.lines("  " + $0, width: width) }.map { $0 + "\n" }.joined()
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
      words.append("\(CountedNoun.text(status.refused, "message")) refused")
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

/// The document of `fleet status --json`; members are only ever added.
enum FleetDocument {
  /// The document about a fleet whose relay has answered, with the breakers that were asked for.
  static func of(
    _ status: RelayStatus, showing overview: FleetOverview, _ commands: [NamedConfirmations] = []
  ) -> JSONValue {
    let hosts = overview.hosts.enumerated().map { place, host in
      json(host, overview.rows.compactMap { $0.standings[place] })
    }
    return .object([
      .init("fleet", .string(status.fleet)),
      .init("host", .string(status.host)),
      .init(
        "relay",
        .object([
          .init("running", .bool(true)),
          .init("connected", .bool(status.isConnected)),
          .init("since", BreakerDocument.time(status.since)),
          .init("problem", JSONValue(status.problem)),
          .init("lag_ms", JSONValue(milliseconds: status.lag)),
          .init("waiting", JSONValue(status.waiting)),
          .init("applied", .integer(status.applied)),
          .init("refused", .integer(status.refused)),
          .init("skew_ms", JSONValue(milliseconds: status.skew)),
        ])),
      .init("hosts", .array(hosts + overview.silent.map { json($0, []) })),
      .init("commands", .array(commands.flatMap(\.documents))),
    ])
  }

  /// The document about a fleet whose relay does not answer: what the store knows.
  static func of(_ standing: FleetStanding) -> JSONValue {
    .object([
      .init("fleet", .string(standing.fleet)),
      .init("host", .string(standing.host)),
      .init(
        "relay",
        .object([
          .init("running", .bool(standing.isRelayRunning)),
          .init("connected", .bool(standing.isConnected)),
          .init("since", BreakerDocument.time(standing.isRelayRunning ? standing.changedAt : nil)),
          .init("problem", JSONValue(standing.problem)),
          .init("lag_ms", .null),
          .init("waiting", .integer(Int64(standing.waiting))),
          .init("applied", .null),
          .init("refused", .null),
          .init("skew_ms", .null),
        ])),
      .init("hosts", .array([])),
      .init("commands", .array([])),
    ])
  }

  private static func json(
    _ host: RelayStatus.Host, _ standings: [RelayStatus.Standing]
  ) -> JSONValue {
    .object([
      .init("host", .string(host.name)),
      .init("silent", .bool(host.isSilent)),
      .init("silent_ms", JSONValue(milliseconds: host.silence)),
      .init("skew_ms", JSONValue(milliseconds: host.skew)),
      .init("breakers", .array(standings.map(\.document))),
    ])
  }
}

/// How far a host's clock is ahead of the server's.
enum ClockSkew {
  /// The words for it; nil if it is less than a minute, which does no harm.
  static func words(_ skew: Duration) -> String? {
    let length = max(skew, .zero - skew)
    guard length >= .seconds(60) else { return nil }
    return "\(SpokenDuration.format(length)) \(skew > .zero ? "ahead of" : "behind")"
  }
}

/// The latest commands to one breaker, and who has carried them out.
struct NamedConfirmations {
  var name: String
  var confirmations: FleetConfirmations

  /// The commands, one for each time that somebody gave one, the latest first.
  private var given: [[FleetConfirmations.Command]] {
    var groups: [[FleetConfirmations.Command]] = []
    for command in confirmations.commands {
      let place = groups.firstIndex {
        $0[0].stamp == command.stamp && $0[0].host == command.host
      }
      if let place { groups[place].append(command) } else { groups.append([command]) }
    }
    return groups
  }

  /// A line for each command, and one for each kind of host that has not confirmed it.
  var lines: [String] {
    given.flatMap { parts -> [String] in
      let first = parts[0]
      let aspects = parts.map(\.aspect).joined(separator: ", ")
      let reason = first.reason.map { " (\(VisibleText.bare($0)))" } ?? ""
      let age = SpokenDuration.format(first.age)
      let lead =
        "\(VisibleText.name(name)), \(aspects), \(age) ago by \(VisibleText.bare(first.author)) on "
        + "\(VisibleText.name(first.host))\(reason): "
      if let winner = first.winner {
        return [lead + "overruled by a later command from \(VisibleText.name(winner))"]
      }
      if let refusal = first.refusal {
        return [lead + "cannot go out (\(VisibleText.bare(refusal)))"]
      }
      guard first.isTold else {
        return [lead + (confirmations.problem == nil ? "not told yet" : "unknown")]
      }
      return [lead + FleetCourse.words(of: first.hosts)]
        + FleetCourse.missing(of: first.hosts).map { "  " + $0 }
    }
  }

  var documents: [JSONValue] {
    confirmations.commands.map { command in
      guard case .object(let members) = command.document else { return command.document }
      return .object([.init("name", .string(name))] + members)
    }
  }
}

extension CommandContext {
  /// Asks the relay of this host who has carried out the latest commands to a breaker.
  ///
  /// An earlier relay knows nothing of that.
  func confirmations(of name: String) throws(ControlError) -> NamedConfirmations {
    let client = RelayClient(store: store.path, patience: console.relayPatience)
    do throws(RelaySilence) {
      return NamedConfirmations(name: name, confirmations: try client.confirmations(of: name))
    } catch {
      note("which hosts have carried out commands is unknown: \(VisibleText.bare(error.why))")
      return NamedConfirmations(name: name, confirmations: FleetConfirmations(commands: []))
    }
  }
}

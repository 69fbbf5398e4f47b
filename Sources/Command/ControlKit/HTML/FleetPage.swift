import ProgramKit
import SharedBreaker

/// A fleet as one HTML file: the silent hosts, how breakers stand on which hosts, and which hosts
/// have carried out the latest commands.
struct FleetPage {
  /// The answer of this host's relay.
  var status: RelayStatus
  var overview: FleetOverview

  /// The latest commands, and the standings of hosts about them.
  var commands: [NamedConfirmations]

  /// The breakers whose commands are not shown, because there are too many.
  var omitted: Int
  var now: BreakerTimestamp

  var html: String {
    let name = VisibleText.name(status.fleet)
    let rejecting = overview.rows.count { !$0.isUsual }
    let title =
      rejecting == 0 ? name : "\(CountedNoun.text(rejecting, "breaker")) not closed · \(name)"
    let count = CountedNoun.text(overview.hosts.count + overview.silent.count, "host")
    let silent = overview.silent.isEmpty ? "" : ", \(overview.silent.count) silent"
    let all = CountedNoun.text(rejecting, "breaker")
    let lead =
      rejecting == 0
      ? "\(count)\(silent); every breaker is closed and automatic"
      : "\(count)\(silent); \(all) not closed and automatic on every host"
    let text = FleetText(status: status, overview: overview, now: now)
    return PageFrame(
      title: title, heading: "Fleet <bdi>\(name)</bdi>", lead: lead,
      note: """
        As of \(PageTime.full(now)). Times are in UTC. Relay of this host, \
        <bdi>\(VisibleText.name(status.host))</bdi>: \(text.relayWords)
        """,
      body: "\(attention(text))\(table)\(commandTable)\(hostTable)"
    ).html.text
  }
}

/// The section for hosts and breakers that need attention.
extension FleetPage {
  private func attention(_ text: FleetText) -> HTML {
    var items: [HTML] = []
    if !overview.silent.isEmpty {
      let hosts = overview.silent.sorted { ($0.silence ?? .zero) > ($1.silence ?? .zero) }
      let names: [HTML] = hosts.enumerated().map { place, host in
        let time = host.silence.map { " for \(SpokenDuration.format($0))" } ?? ""
        return "\(place == 0 ? "" : ", ")<bdi>\(VisibleText.name(host.name))</bdi>\(time)"
      }
      items.append("<li><span class=\"state doubtful\">silent</span> \(names)</li>\n")
    }
    for (title, lines) in text.differences {
      for line in lines {
        items.append(
          "<li><span class=\"state doubtful\">\(title.lowercased())</span> \(line)</li>\n")
      }
    }
    let content: HTML =
      items.isEmpty
      ? "<p>Nothing: no host is silent, and all agree on their clocks, keys and versions.</p>"
      : "<ul class=\"troubles\">\n\(items)</ul>"
    return """
      <section aria-labelledby="attention">
      <h2 id="attention">Hosts that need attention</h2>
      \(content)
      </section>

      """
  }
}

/// Hosts and breakers.
extension FleetPage {
  /// How many breakers have columns; more would fit no screen.
  private static let mostColumns = 12

  /// How many hosts a row names before it only counts them.
  private static let mostNames = 4

  /// The hosts with the same words for every breaker, those first that stand out most.
  private func groups(
    of rows: ArraySlice<FleetOverview.Row>
  ) -> [(hosts: [RelayStatus.Host], cells: [RelayStatus.Standing?])] {
    var groups: [(hosts: [RelayStatus.Host], cells: [RelayStatus.Standing?])] = []
    var places: [[String]: Int] = [:]
    for (place, host) in overview.hosts.enumerated() {
      let cells = rows.map { $0.standings[place] }
      let words = cells.map { $0?.word ?? "" }
      if let known = places[words] {
        groups[known].hosts.append(host)
      } else {
        places[words] = groups.count
        groups.append(([host], cells))
      }
    }
    func worries(_ cells: [RelayStatus.Standing?]) -> Int { cells.count { $0?.isUsual == false } }
    return groups.sorted {
      let (left, right) = (worries($0.cells), worries($1.cells))
      if left != right { return left > right }
      return $0.hosts.count > $1.hosts.count
    }
  }

  private var table: HTML {
    let rows = overview.rows.prefix(Self.mostColumns)
    let more = overview.rows.count - rows.count
    guard !rows.isEmpty else {
      return """
        <section aria-labelledby="breakers">
        <h2 id="breakers">Breakers</h2>
        <p>Every breaker is closed and automatic on every host.</p>
        </section>

        """
    }
    let heads = rows.map { PageTable.title("<bdi>\(VisibleText.name($0.name))</bdi>" as HTML) }
    let lines: [HTML] = groups(of: rows).map { group in
      let cells: [HTML] = zip(rows, group.cells).map { row, standing in
        "<td role=\"cell\" data-label=\"\(VisibleText.name(row.name))\">\(Self.cell(standing))</td>"
      }
      return """
        <tr role="row"><th role="rowheader" scope="row">\(Self.names(of: group.hosts))</th>\(cells)</tr>

        """
    }
    let rest: HTML =
      more == 0
      ? .nothing
      : "<p class=\"note\">\(CountedNoun.text(more, "more breaker")): see 'cbctl fleet status --all'.</p>\n"
    return """
      <section aria-labelledby="breakers">
      <h2 id="breakers">Breakers that are not closed and automatic everywhere</h2>
      <div class="wide"><table class="matrix" role="table">
      <caption>Hosts that stand alike have one row</caption>
      <thead role="rowgroup"><tr role="row">\(PageTable.title("Hosts"))\(heads)</tr></thead>
      <tbody role="rowgroup">
      \(lines)</tbody>
      </table></div>
      \(rest)</section>

      """
  }

  private static func cell(_ standing: RelayStatus.Standing?) -> HTML {
    guard let standing else { return "<span class=\"note\">-</span>" }
    let weight: HTML = standing.isUsual ? "good" : standing.isDoubtful ? "doubtful" : "bad"
    return "<span class=\"state \(weight)\">\(VisibleText.bare(standing.word))</span>"
  }

  private static func names(of hosts: [RelayStatus.Host]) -> HTML {
    let names: [HTML] = hosts.enumerated().map { place, host in
      "\(place == 0 ? "" : ", ")<bdi>\(VisibleText.name(host.name))</bdi>"
    }
    guard hosts.count > mostNames else { return "\(names)" }
    return """
      <details><summary>\(CountedNoun.text(hosts.count, "host"))</summary>\
      <div class="inside">\(names)</div></details>
      """
  }
}

/// Commands and hosts.
extension FleetPage {
  private var commandTable: HTML {
    let rows: [HTML] = commands.flatMap { named in
      named.given.map { parts in row(named.name, parts, isKnown: named.confirmations.problem == nil)
      }
    }
    let rest: HTML =
      omitted == 0
      ? .nothing
      : "<p class=\"note\">\(CountedNoun.text(omitted, "more breaker")): see 'cbctl fleet status NAME'.</p>\n"
    let content: HTML =
      rows.isEmpty
      ? "<p>This host knows of no commands to these breakers.</p>"
      : """
      <table class="history" role="table">
      <thead role="rowgroup"><tr role="row">\
      \(["Breaker", "Command", "Given", "Carried out"].map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(rows)</tbody>
      </table>
      """
    return """
      <section aria-labelledby="commands">
      <h2 id="commands">Latest commands to them</h2>
      \(content)
      \(rest)</section>

      """
  }

  private func row(
    _ name: String, _ parts: [FleetConfirmations.Command], isKnown: Bool
  ) -> HTML {
    let first = parts[0]
    let reason: HTML = first.reason.map { ": <q>\($0)</q>" } ?? .nothing
    let given = """
      \(SpokenDuration.format(first.age)) ago by <bdi>\(first.giver.description)</bdi>
      """ as HTML
    return """
      <tr role="row"><th role="rowheader" scope="row"><bdi>\(VisibleText.name(name))</bdi></th>\
      <td role="cell">\(parts.map(\.aspect).joined(separator: ", "))</td>\
      <td role="cell">\(given)\(reason)</td>\
      <td role="cell">\(Self.course(of: first, isKnown: isKnown))</td></tr>

      """
  }

  private static func course(of command: FleetConfirmations.Command, isKnown: Bool) -> HTML {
    func state(_ weight: HTML, _ words: String) -> HTML {
      "<span class=\"state \(weight)\">\(words)</span>"
    }
    if let winner = command.winner {
      return state("doubtful", "overruled by a later command from \(VisibleText.name(winner))")
    }
    if let refusal = command.refusal { return state("bad", "cannot go out: \(refusal)") }
    guard command.isTold else { return state("doubtful", isKnown ? "not told yet" : "unknown") }
    let missing = FleetCourse.missing(of: command.hosts)
    let items: [HTML] = missing.map { "<li>\($0)</li>" }
    return """
      \(state(missing.isEmpty ? "good" : "doubtful", FleetCourse.words(of: command.hosts)))\
      <ul class="words">\(items)</ul>
      """
  }

  private var hostTable: HTML {
    let hosts = (overview.hosts + overview.silent).sorted { $0.name < $1.name }
    let heads = ["Host", "Heard from", "Clock ahead by", "cbrelay", "Protocol", "Signed"]
    let rows: [HTML] = hosts.map { host in
      let signed =
        switch host.isProven {
        case nil: "-"
        case true?: "with key \(host.keys.first ?? "?")"
        case false?: "no"
        }
      let silence = host.silence.map { SpokenDuration.format($0) } ?? "-"
      let skew = host.skew.map {
        "\($0 < .zero ? "-" : "")\(SpokenDuration.format(ClockSkew.length($0)))"
      }
      return """
        <tr role="row"><th role="rowheader" scope="row"><bdi>\(VisibleText.name(host.name))</bdi></th>\
        <td role="cell">\(host.isSilent ? "silent for \(silence)" : "\(silence) ago")</td>\
        <td role="cell" data-label="\(heads[2])">\(skew ?? "-")</td>\
        <td role="cell" data-label="\(heads[3])">\(VisibleText.bare(host.relay ?? "-"))</td>\
        <td role="cell" data-label="\(heads[4])">\(host.speaks)</td>\
        <td role="cell" data-label="\(heads[5])">\(VisibleText.bare(signed))</td></tr>

        """
    }
    return """
      <section aria-labelledby="hosts">
      <h2 id="hosts">Hosts (\(hosts.count))</h2>
      <div class="scroll"><table class="history" role="table">
      <thead role="rowgroup"><tr role="row">\(heads.map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(rows)</tbody>
      </table></div>
      </section>
      """
  }
}

extension CommandSpec {
  /// How many breakers' commands a page shows, because the relay is asked for each of them.
  private static let mostCommands = 20

  static func writeFleetPage(
    _ context: CommandContext, _ parsed: ParsedCommand
  ) throws(ControlError) -> Ending {
    try context.checkPage(parsed)
    guard let standing = try context.fleetStanding() else {
      throw ControlError(
        .storeUnavailable, "no fleet",
        "no relay has worked on \(VisibleText.bare(context.store.path))",
        "start cbrelay to join one")
    }
    let status = try context.answer(of: standing)
    let overview = FleetOverview(
      of: status, fitting: parsed.patterns, isComplete: parsed.has("all"))
    let names = overview.rows.map(\.name)
    var commands: [NamedConfirmations] = []
    for name in names.prefix(mostCommands) { commands.append(try context.confirmations(of: name)) }
    let page = FleetPage(
      status: status, overview: overview, commands: commands,
      omitted: max(0, names.count - mostCommands), now: context.now())
    try context.write(page.html, of: names.count, parsed)
    return .done
  }
}

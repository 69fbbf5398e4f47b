import BreakerDocuments
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker

extension CommandSpec {
  static let fleet = CommandSpec(
    name: "fleet",
    summary: "show the hosts of a fleet, take commands back, forget a host, or leave it",
    arguments: [
      ArgumentSpec(
        label: "ACTION", kind: .choice(["status", "page", "withdraw", "forget", "leave"]),
        summary:
          "status: show the breakers of every host; page: write that as HTML; withdraw: take back commands that have "
          + "not gone out; forget: forget a host that is gone for good; leave: take this host out of "
          + "the fleet"),
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "status: a name, or a pattern with *, ? or [a-z] (default: every breaker that is "
          + "not closed and automatic on every host); withdraw: the breaker; forget: the host"),
    ],
    options: [
      OptionSpec(
        name: "all", summary: "status: list every breaker and every silent host"),
      OptionSpec(
        name: "output", kind: .path, summary: "page: write to this file instead of standard output"),
      OptionSpec(
        name: "mode", kind: .permissions, summary: "page: permissions of the file (600)"),
      OptionSpec(name: "yes", letter: "y", summary: "leave: do not ask for confirmation"),
    ],
    details: [
      "A fleet is all hosts whose relays, cbrelay, use the same Redis and the same name. Commands "
        + "that change a breaker, such as force, take --fleet to act on all of them.",
      "status asks the relay of this host. A host is silent if nothing has been heard from its "
        + "relay for a while; its breakers then work on their own. The exit code is 69 if the relay "
        + "of this host does not run, does not answer, or cannot reach the fleet.",
      "If you name a breaker, status also shows the latest commands to it: which hosts have carried "
        + "them out, which have refused them, which are silent, and which have relays of a version "
        + "that does not say so.",
      "A terminal shows a column for each host if there is room, and otherwise on how many hosts a "
        + "breaker is open. In a pipe, each line is about one breaker on one host.",
      "page writes the same as one HTML file that runs no script and loads nothing, with a row for hosts "
        + "that stand alike, the hosts that are silent or differ, and the latest commands to the breakers "
        + "that are shown.",
      "withdraw takes back the commands to a breaker that have not gone out, such as those of a host "
        + "whose clock is a day ahead. What they have changed on this host stays until another "
        + "command changes it.",
      "forget removes a host that has died and does not come back, which the fleet would otherwise "
        + "call silent for a day. A host that is not silent is not forgotten, and one that comes back "
        + "is there again.",
      "leave makes the store forget the fleet and the commands that have not reached it. Breakers "
        + "keep their states, modes and policies. Stop the relay first: leave does nothing while it "
        + "runs.",
    ],
    examples: [
      Example("cbctl fleet status", "see where a breaker is not closed"),
      Example("cbctl fleet status 'payments-*' --json", "list some breakers of all hosts as JSON"),
      Example("cbctl fleet status payments", "see who has carried out the latest commands to it"),
      Example(
        "cbctl fleet page --output fleet.html", "write a page to look at, or to attach to a report"),
      Example("cbctl fleet withdraw payments", "take back what has not gone out"),
      Example("cbctl fleet forget web-17", "forget a host that is gone for good"),
      Example("cbctl fleet leave", "take this host out of its fleet"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [
      .failed:
        "leave: the relay still runs, or you did not confirm it; forget: the host is not silent, "
        + "or the fleet knows none of that name"
    ]
  ) { context, parsed throws(ControlError) in
    let action = parsed.text("ACTION")
    for option in ["output", "mode"] where parsed.has(option) && action != "page" {
      throw .usage(
        "--\(option) with \(action ?? "")", "only fleet page writes a file", help: "fleet")
    }
    switch action {
    case "page": return try writeFleetPage(context, parsed)
    case "withdraw": return try withdraw(context, parsed)
    case "forget": return try forget(context, parsed)
    case "leave": break
    default: return try showFleet(context, parsed)
    }
    for word in ["NAME", "all"] where parsed.has(word) {
      throw .usage(
        "leave with \(word == "all" ? "--all" : "a name")", "a store leaves its fleet as a whole",
        help: "fleet")
    }
    return try leaveFleet(context, parsed)
  }

  private static func showFleet(
    _ context: CommandContext, _ parsed: ParsedCommand
  ) throws(ControlError) -> Ending {
    guard let standing = try context.fleetStanding() else {
      throw ControlError(
        .storeUnavailable, "no fleet",
        "no relay has worked on \(VisibleText.bare(context.store.path))",
        "start cbrelay to join one")
    }
    let status: RelayStatus
    do throws(ControlError) { status = try context.answer(of: standing) } catch {
      if context.global.isJSON { context.print(FleetDocument.of(standing)) }
      throw error
    }
    let patterns = parsed.patterns
    let overview = FleetOverview(of: status, fitting: patterns, isComplete: parsed.has("all"))
    let unmatched = patterns.filter { pattern in
      !overview.rows.contains { pattern.matches($0.name) }
    }
    // Hosts do not describe breakers that are closed and automatic, so this store may know a name.
    let known = unmatched.contains(where: \.isName) ? try context.names() : []
    if let missing = unmatched.first(where: { pattern in
      pattern.isName && !known.contains { pattern.matches($0) }
    }) {
      throw .noBreaker(
        missing.text, among: overview.names + known,
        remedy: "run 'cbctl fleet status --all' to list all names")
    }
    var commands: [NamedConfirmations] = []
    for pattern in patterns where pattern.isName {
      commands.append(try context.confirmations(of: pattern.text))
    }
    if context.global.isJSON {
      context.print(FleetDocument.of(status, showing: overview, commands))
    } else {
      let text = FleetText(
        status: status, overview: overview, commands: commands, now: context.now())
      context.print(
        context.console.isOutputTerminal
          ? text.page(width: context.console.width ?? HelpPage.width, painter: context.painter)
          : text.plain)
    }
    for pattern in unmatched {
      context.note(
        "nothing that matches \(VisibleText.quoted(pattern.text)) is open, half-open or in a mode")
    }
    return .done
  }

  private static func withdraw(
    _ context: CommandContext, _ parsed: ParsedCommand
  ) throws(ControlError) -> Ending {
    let patterns = parsed.patterns
    guard patterns.count == 1, let name = patterns.first, name.isName, !parsed.has("all") else {
      throw .usage("withdraw without one name", "it takes back commands to it", help: "fleet")
    }
    guard let standing = try context.fleetStanding() else {
      throw ControlError(
        .storeUnavailable, "no fleet",
        "no relay has worked on \(VisibleText.bare(context.store.path))",
        "start cbrelay to join one")
    }
    let commands = try context.ask { store throws(StoreError) in
      try store.withdrawCommands(to: name.text)
    }
    if context.global.isJSON {
      context.print(
        .object([
          .init("fleet", .string(standing.fleet)), .init("host", .string(standing.host)),
          .init("name", .string(name.text)), .init("withdrawn", .integer(Int64(commands.count))),
        ]))
    } else if commands.isEmpty {
      context.note("nothing to withdraw: no command to \(VisibleText.quoted(name.text)) waits")
    } else if !context.global.isQuiet {
      let count = CountedNoun.text(commands.count, "command")
      context.print(
        "\(VisibleText.name(name.text)): withdrew \(count); this host stays as it is until the"
          + " fleet says otherwise\n")
    }
    return .done
  }

  private static func forget(
    _ context: CommandContext, _ parsed: ParsedCommand
  ) throws(ControlError) -> Ending {
    let patterns = parsed.patterns
    guard patterns.count == 1, let host = patterns.first, host.isName, !parsed.has("all") else {
      throw .usage("forget without one host", "it forgets one at a time", help: "fleet")
    }
    guard let standing = try context.fleetStanding(), standing.isRelayRunning else {
      throw ControlError(
        .storeUnavailable, "nothing was forgotten", "cbrelay does not run on this host",
        "start it, or run the command on another host")
    }
    let name = VisibleText.name(host.text)
    let answer: FleetDismissal
    do throws(RelaySilence) {
      answer = try RelayClient(
        store: context.store.path, patience: context.console.relayPatience
      ).forget(host: host.text)
    } catch {
      throw ControlError(
        .storeUnavailable, "nothing was forgotten",
        "the relay of this host gives no answer (\(VisibleText.bare(error.why)))", "try again")
    }
    if let problem = answer.problem {
      throw ControlError(
        .storeUnavailable, "\(name) was not forgotten", VisibleText.bare(problem), "try again")
    }
    if context.global.isJSON {
      context.print(
        .object([
          .init("fleet", .string(standing.fleet)), .init("host", .string(host.text)),
          .init("silent_ms", JSONValue(milliseconds: answer.silence)),
          .init("forgotten", .bool(answer.isForgotten)),
        ]))
    }
    guard let silence = answer.silence else {
      throw ControlError(
        .failed, "nothing was forgotten",
        "fleet \(VisibleText.name(standing.fleet)) knows no host \(name)",
        "see 'cbctl fleet status'")
    }
    guard answer.isForgotten else {
      throw ControlError(
        .failed, "\(name) was not forgotten",
        "it was heard from \(SpokenDuration.format(silence)) ago",
        "stop its relay first ('systemctl stop cbrelay'), which makes the fleet forget it")
    }
    if !context.global.isJSON, !context.global.isQuiet {
      context.print("\(name): forgotten after \(SpokenDuration.format(silence)) of silence\n")
    }
    return .done
  }

  private static func leaveFleet(
    _ context: CommandContext, _ parsed: ParsedCommand
  ) throws(ControlError) -> Ending {
    guard let standing = try context.fleetStanding() else {
      if context.global.isJSON { context.print(left(nil)) }
      context.note("nothing to leave: the store belongs to no fleet")
      return .done
    }
    let fleet = VisibleText.name(standing.fleet)
    guard !standing.isRelayRunning else {
      throw ControlError(
        .failed, "the store has not left fleet \(fleet)", "its relay runs", "stop cbrelay first")
    }
    let lost = CountedNoun.text(standing.waiting, "command")
    let question =
      standing.waiting == 0
      ? "leave fleet \(fleet)?" : "leave fleet \(fleet), and drop \(lost) that it has not heard?"
    try context.confirm(question, parsed, for: "leaving a fleet")
    _ = try context.ask { store throws(StoreError) in try store.leaveFleet() }
    if context.global.isJSON {
      context.print(left(standing))
    } else if !context.global.isQuiet {
      let dropped =
        standing.waiting == 0 ? "" : ", and dropped \(lost) that it had not heard"
      context.print("\(VisibleText.name(standing.host)): left fleet \(fleet)\(dropped)\n")
    }
    return .done
  }

  private static func left(_ standing: FleetStanding?) -> JSONValue {
    .object([
      .init("left", .bool(standing != nil)),
      .init("fleet", JSONValue(standing?.fleet)),
      .init("host", JSONValue(standing?.host)),
      .init("dropped", .integer(Int64(standing?.waiting ?? 0))),
    ])
  }
}

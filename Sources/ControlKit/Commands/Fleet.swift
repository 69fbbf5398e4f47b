import BreakerDocuments
import ProgramKit
import SharedBreaker

extension CommandSpec {
  static let fleet = CommandSpec(
    name: "fleet",
    summary: "show the hosts of a fleet, or leave it",
    arguments: [
      ArgumentSpec(
        label: "ACTION", kind: .choice(["status", "leave"]),
        summary: "status: show the breakers of every host; leave: take this host out of the fleet"),
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "status: a name, or a pattern with *, ? or [a-z] (default: every breaker that is "
          + "not closed and automatic on every host)"),
    ],
    options: [
      OptionSpec(
        name: "all", summary: "status: list every breaker"),
      OptionSpec(name: "yes", letter: "y", summary: "leave: do not ask for confirmation"),
    ],
    details: [
      "A fleet is all hosts whose relays, cbrelay, use the same Redis and the same name. Commands "
        + "that change a breaker, such as force, take --fleet to act on all of them.",
      "status asks the relay of this host. A host is silent if nothing has been heard from its "
        + "relay for a while; its breakers then work on their own. The exit code is 69 if the relay "
        + "of this host does not run, does not answer, or cannot reach the fleet.",
      "A terminal shows a column for each host if there is room, and otherwise on how many hosts a "
        + "breaker is open. In a pipe, each line is about one breaker on one host.",
      "leave makes the store forget the fleet and the commands that have not reached it. Breakers "
        + "keep their states, modes and policies. Stop the relay first: leave does nothing while it "
        + "runs.",
    ],
    examples: [
      Example("cbctl fleet status", "see where a breaker is not closed"),
      Example("cbctl fleet status 'payments-*' --json", "list some breakers of all hosts as JSON"),
      Example("cbctl fleet leave", "take this host out of its fleet"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "leave: the relay still runs, or you did not confirm it"]
  ) { context, parsed throws(ControlError) in
    guard parsed.text("ACTION") == "leave" else { return try showFleet(context, parsed) }
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
    if context.global.isJSON {
      context.print(FleetDocument.of(status, showing: overview))
    } else {
      let text = FleetText(status: status, overview: overview, now: context.now())
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

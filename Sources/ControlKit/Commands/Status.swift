import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let status = CommandSpec(
    name: "status",
    summary: "list breakers, worst first",
    arguments: [.patterns],
    options: [
      OptionSpec(
        name: "state", kind: .choice(BreakerState.allCases.map(\.wireName)),
        summary: "list only breakers in this state")
    ],
    details: [
      "This command changes nothing: it makes no call and creates no store.",
      "FAILURES counts consecutive failures, or those within the policy's time; the number after "
        + "the slash opens the breaker. RETRY-IN is how long callers are still rejected; 'due' "
        + "means that the next call is a probe. SINCE is when the state last changed, in UTC, and "
        + "FOR is how long ago that was.",
      "A terminal shows the most important columns that fit, and a last line with the number of "
        + "breakers in each state. Elsewhere the columns are always the same, with full times and "
        + "one word in each.",
      "A name that no breaker has is an error. A pattern that matches no name only prints a "
        + "message on standard error.",
    ],
    examples: [
      Example("cbctl status", "list every breaker"),
      Example("cbctl status 'payments-*' --state open --json", "list some open ones as JSON"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.distinctTexts("NAME").map { NamePattern($0) }
    let state = parsed.text("state").flatMap { BreakerState(wireName: $0) }
    let chosen = try context.snapshots(fitting: patterns, in: state)
    if context.global.isJSON {
      BreakerDocument.write(WorryOrder.sorted(chosen)) { context.print($0) }
    } else if !chosen.isEmpty {
      let isTerminal = context.console.isOutputTerminal
      let table = StatusTable(snapshots: chosen, now: isTerminal ? context.now() : nil)
      context.print(table.render(width: context.console.width, painter: context.painter))
      if isTerminal, !context.global.isQuiet {
        let summary = SummaryLine.text(
          of: chosen, width: context.console.width, painter: context.painter)
        context.print("\n\(summary)\n")
        let width = context.console.width ?? HelpPage.width
        let modes = ModeLines.text(of: chosen, at: context.now(), width: width)
        context.print(modes.map { $0 + "\n" }.joined())
        // The worst come first, so on a small screen they have scrolled away.
        let isLong = context.console.height.map { chosen.count + modes.count + 4 > $0 } ?? false
        if isLong, let worst = SummaryLine.worst(of: chosen, width: context.console.width ?? 80) {
          context.print(worst + "\n")
        }
        if let hint = try context.fleetStanding()?.hint(at: context.now()) {
          let lines = TextWrap.lines(hint, width: width)
          context.print(lines.map { context.painter.paint($0, .yellow) + "\n" }.joined())
        }
      }
    }
    for note in try notes(patterns, state, chosen, context) { context.note(note) }
    return .done
  }

  /// Messages about names, patterns and states that nothing matches.
  private static func notes(
    _ patterns: [NamePattern], _ state: BreakerState?, _ chosen: [BreakerSnapshot],
    _ context: CommandContext
  ) throws(ControlError) -> [String] {
    var unmatched = patterns.filter { pattern in
      !chosen.contains { pattern.matches($0.name) }
    }
    // Reading all names is worth it only if something was not found.
    guard chosen.isEmpty || !unmatched.isEmpty else { return [] }
    let names = try context.names()
    if names.isEmpty { return ["no breakers yet: the first call through one creates it"] }
    let count = CountedNoun.text(names.count, "breaker")
    unmatched = unmatched.filter { pattern in !names.contains { pattern.matches($0) } }
    if !unmatched.isEmpty {
      return unmatched.map {
        "no name matches \(VisibleText.quoted($0.text)): the store has \(count)"
      }
    }
    guard let state, chosen.isEmpty else { return [] }
    return ["no matching breaker is \(state.wireName): the store has \(count)"]
  }
}

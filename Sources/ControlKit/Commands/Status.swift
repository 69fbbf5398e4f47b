import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let status = CommandSpec(
    name: "status",
    summary: "list breakers, the worst first",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "a name, or a pattern with *, ? or [a-z]; every breaker if none is given")
    ],
    options: [
      OptionSpec(
        name: "state", kind: .choice(BreakerState.allCases.map(\.wireName)),
        summary: "only those in this state")
    ],
    details: [
      "Asking changes nothing: no call is made and no store is created.",
      "FAILURES are failures in a row, of how many open it where that is a condition. RETRY-IN is "
        + "how long callers are still rejected; 'due' means that the next call is a probe. SINCE is "
        + "when the state last changed, in UTC, and FOR how long ago that is.",
      "On a terminal, what is worth least is left out where there is no room, and a last line counts "
        + "them. Otherwise the columns are always the same, with full times and one word in each.",
      "A name that no breaker has is an error; a pattern that fits none is not, and is told on "
        + "standard error.",
    ],
    examples: [
      Example("cbctl status", "every breaker of this host"),
      Example("cbctl status 'payments-*' --state open --json", "for a script"),
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
        // The worst come first, so on a small screen they have scrolled away.
        let isLong = context.console.height.map { chosen.count + 4 > $0 } ?? false
        if isLong, let worst = SummaryLine.worst(of: chosen, width: context.console.width ?? 80) {
          context.print(worst + "\n")
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
    if names.isEmpty { return ["no breakers yet: the first call through one makes it"] }
    let count = StateLine.counted(Int64(names.count), "breaker")
    unmatched = unmatched.filter { pattern in !names.contains { pattern.matches($0) } }
    if !unmatched.isEmpty {
      return unmatched.map {
        "no name matches \(VisibleText.quoted($0.text)): the store has \(count)"
      }
    }
    guard let state, chosen.isEmpty else { return [] }
    return ["no such breaker is \(state.wireName): the store has \(count)"]
  }
}

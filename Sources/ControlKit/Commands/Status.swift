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
        + "how long callers are still rejected; 'due' means that the next call is a probe.",
      "A name that no breaker has is an error; a pattern that fits none is not, and is told on "
        + "standard error.",
    ],
    examples: [
      Example("cbctl status", "every breaker of this host"),
      Example("cbctl status 'payments-*' --state open --json", "for a script"),
    ]
  ) { session, parsed throws(ControlError) in
    let all = try session.snapshots()
    let patterns = parsed.distinctTexts("NAME")
    var chosen = try select(patterns, from: all)
    if let state = parsed.text("state") { chosen = chosen.filter { $0.state.wireName == state } }
    if session.global.isJSON {
      session.print(BreakerDocument.list(StatusTable.sorted(chosen)))
    } else if !chosen.isEmpty {
      let isTerminal = session.console.isOutputTerminal
      let table = StatusTable(snapshots: chosen, now: isTerminal ? session.now() : nil)
      session.print(table.render(width: session.console.width, painter: session.painter))
    }
    for note in notes(patterns, parsed.text("state"), all, chosen) { session.note(note) }
    return .done
  }

  /// What was asked for and is not there, one line each.
  private static func notes(
    _ patterns: [String], _ state: String?, _ all: [BreakerSnapshot], _ chosen: [BreakerSnapshot]
  ) -> [String] {
    if all.isEmpty { return ["no breakers yet: the first call through one makes it"] }
    let count = StateLine.counted(Int64(all.count), "breaker")
    let unmatched = patterns.filter { pattern in
      let glob = Glob(pattern)
      return !all.contains { $0.name == pattern || glob.matches($0.name) }
    }
    if !unmatched.isEmpty {
      return unmatched.map { "no name matches \(VisibleText.quoted($0)): the store has \(count)" }
    }
    guard let state, chosen.isEmpty else { return [] }
    return ["no such breaker is \(state): the store has \(count)"]
  }

  /// The breakers that names and patterns stand for; a plain name must be one.
  private static func select(
    _ patterns: [String], from all: [BreakerSnapshot]
  ) throws(ControlError) -> [BreakerSnapshot] {
    if patterns.isEmpty { return all }
    let names = Set(all.map(\.name))
    for pattern in patterns where !Glob.isPattern(pattern) && !names.contains(pattern) {
      throw .noBreaker(pattern, among: all.map(\.name))
    }
    let globs = patterns.map { Glob($0) }
    return all.filter { snapshot in
      patterns.contains(snapshot.name) || globs.contains { $0.matches(snapshot.name) }
    }
  }
}

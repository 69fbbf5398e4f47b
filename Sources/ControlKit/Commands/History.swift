import SharedBreaker

extension CommandSpec {
  static let history = CommandSpec(
    name: "history",
    summary: "list changes and operators' words, oldest first",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .name, count: .optional,
        summary: "the breaker; every breaker if none is given")
    ],
    options: [
      OptionSpec(name: "since", kind: .duration, summary: "only what happened in the last D"),
      OptionSpec(name: "limit", kind: .count, summary: "only the newest N"),
    ],
    details: ["With --json, every line is one object."],
    examples: [Example("cbctl history payments --since 1h", "what happened in the last hour")]
  ) { session, parsed throws(ControlError) in
    try session.connectToExisting()
    let name = parsed.text("NAME")
    let since = parsed.duration("since").map { session.now().earlier(by: $0) }
    let limit = parsed.number("limit").map { Int($0) }
    let entries = try session.ask { store throws(StoreError) in
      try store.history(of: name, since: since, limit: limit)
    }
    // What is left of a deleted breaker can still be read.
    if entries.isEmpty, let name { _ = try session.snapshot(of: name) }
    if session.global.isJSON {
      session.print(entries.map { $0.json.text + "\n" }.joined())
    } else {
      let isTerminal = session.console.isOutputTerminal
      let lines = HistoryLines(
        now: isTerminal ? session.now() : nil, width: session.console.width, hasNames: name == nil)
      session.print(lines.render(entries).map { $0 + "\n" }.joined())
    }
    if entries.isEmpty { session.note("no history: nothing has changed in that time") }
    return .done
  }
}

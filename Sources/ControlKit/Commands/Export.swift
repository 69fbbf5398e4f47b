import SharedBreaker

extension CommandSpec {
  static let export = CommandSpec(
    name: "export",
    summary: "print breakers as lines of JSON for 'cbctl import'",
    arguments: [.patterns],
    details: [
      "Each line is a JSON object with the name, the state and how long it stays open, the mode "
        + "with its end and reason, and the policies of code and of an operator.",
      "An export has no history, totals, windows, counted failures or probes. For a complete copy, "
        + "see \"Back up and restore\" in the guide Operations.",
    ],
    examples: [
      Example("cbctl export > breakers.ndjson", "save every breaker"),
      Example("cbctl export 'pay-*' | ssh other cbctl import", "copy some to another host"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.distinctTexts("NAME").map { NamePattern($0) }
    let chosen = try context.snapshots(fitting: patterns, in: nil)
    let now = context.now()
    for snapshot in chosen { context.print(snapshot.backup.json(at: now) + "\n") }
    if chosen.isEmpty { context.note("nothing was exported: no breaker matches") }
    return .done
  }
}

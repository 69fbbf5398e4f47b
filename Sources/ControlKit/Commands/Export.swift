import SharedBreaker

extension CommandSpec {
  static let export = CommandSpec(
    name: "export",
    summary: "print breakers for 'cbctl import' to read, one a line",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "a name, or a pattern with *, ? or [a-z]; every breaker if none is given")
    ],
    details: [
      "Each line is a JSON object: the name, the state and how long it stays open, the mode with its "
        + "end and reason, and the policies of code and of an operator.",
      "What is of the moment stays behind: the history, totals, windows and failures that were "
        + "counted, and the probes that are under way. For a copy with all of it see the guide "
        + "Operations.",
    ],
    examples: [
      Example("cbctl export > breakers.ndjson", "keep them"),
      Example("cbctl export 'pay-*' | ssh other cbctl import", "take some to another host"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.distinctTexts("NAME").map { NamePattern($0) }
    let chosen = try context.snapshots(fitting: patterns, in: nil)
    let now = context.now()
    for snapshot in chosen { context.print(BackupLine.text(of: snapshot.backup, at: now)) }
    if chosen.isEmpty { context.note("nothing was exported: no breaker fits") }
    return .done
  }
}

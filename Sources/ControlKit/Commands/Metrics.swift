import SharedBreaker

extension CommandSpec {
  static let metrics = CommandSpec(
    name: "metrics",
    summary: "print figures of breakers for Prometheus",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "a name, or a pattern with *, ? or [a-z]; every breaker if none is given")
    ],
    options: [
      OptionSpec(
        name: "output", kind: .path, summary: "replace this file as a whole instead of printing"),
      OptionSpec(
        name: "mode", kind: .permissions, summary: "permissions of that file (644)"),
      OptionSpec(
        name: "label", kind: .text, isRepeatable: true,
        summary: "add a label to every sample, as store=payments"),
      OptionSpec(
        name: "limit", kind: .count, summary: "tell of the first N breakers by name (1000)"),
    ],
    details: [
      "The text is what node_exporter's textfile collector and Prometheus read. Asking changes "
        + "nothing: no call is made and no store is created.",
      "If the store is unavailable there is a text all the same, with shared_breaker_store_up 0, "
        + "and the code 69. A name that no breaker has ends with 66, and the others are told of.",
      FileReplacement.rule,
      "Breakers beyond the limit are counted in shared_breaker_store_breakers_left_out.",
    ],
    examples: [
      Example("cbctl metrics", "every breaker of this host"),
      Example(
        "cbctl metrics --output /var/lib/prometheus/node-exporter/breakers.prom",
        "every minute, by cron or a timer"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    if parsed.has("mode"), !parsed.has("output") {
      throw .usage("wrong use of --mode", "it goes with --output", help: "metrics")
    }
    var report = MetricsReport(
      store: StoreFigures(now: context.now()), labels: try LabelText.parse(parsed.texts("label")))
    var failure: ControlError?
    do throws(ControlError) {
      failure = try collect(&report, parsed, context)
    } catch {
      failure = error
    }
    report.store.files = StoreFigures.files(of: context.store.path)
    if let path = parsed.text("output") {
      var file = try FileReplacement(of: path, mode: UInt32(parsed.number("mode") ?? 0o644))
      report.write(asJSON: context.global.isJSON) { file.write($0) }
      try file.finish()
    } else {
      report.write(asJSON: context.global.isJSON) { context.print($0) }
    }
    if let failure { throw failure }
    return .done
  }

  /// Adds the store's figures, and returns an error if a name that was asked for does not exist.
  private static func collect(
    _ report: inout MetricsReport, _ parsed: ParsedCommand, _ context: CommandContext
  ) throws(ControlError) -> ControlError? {
    let patterns = parsed.distinctTexts("NAME").map { NamePattern($0) }
    let names = try context.names()
    let chosen = names.filter { name in
      patterns.isEmpty || patterns.contains { $0.matches(name) }
    }
    let limit = Int(clamping: parsed.number("limit") ?? 1_000)
    let told = Set(chosen.prefix(limit).map { NameBytes($0) })
    report.breakers = try context.ask { store throws(StoreError) in
      try store.snapshots(beginningWith: NamePattern.commonBeginning(of: patterns)) {
        told.contains(NameBytes($0))
      }
    }
    report.store.breakers = names.count
    report.store.leftOut = max(0, chosen.count - limit)
    if report.store.leftOut > 0 {
      context.note(
        "left out \(report.store.leftOut) of \(StateLine.counted(Int64(chosen.count), "breaker")): "
          + "the limit is \(limit): use --limit or a pattern")
    }
    let missing = patterns.first { pattern in
      pattern.isName && !chosen.contains { pattern.matches($0) }
    }
    return missing.map { .noBreaker($0.text, among: names) }
  }
}

import SharedBreaker

extension CommandSpec {
  static let metrics = CommandSpec(
    name: "metrics",
    summary: "print metrics of breakers for Prometheus",
    arguments: [.patterns],
    options: [
      OptionSpec(
        name: "output", kind: .path, summary: "write to this file instead of standard output"),
      OptionSpec(
        name: "mode", kind: .permissions, summary: "permissions of the file (644)"),
      OptionSpec(
        name: "label", kind: .text, isRepeatable: true,
        summary: "add a label to every sample, such as store=payments"),
      OptionSpec(
        name: "limit", kind: .count, summary: "include only the first N breakers by name (1000)"),
    ],
    details: [
      "Prints the text format of Prometheus, which the textfile collector of node_exporter reads. "
        + "This command changes nothing: it makes no call and creates no store.",
      "If the store is unavailable, the output has shared_breaker_store_up 0, and the exit code is "
        + "69. If one of the breakers does not exist, the output has the others, and the exit code "
        + "is 66.",
      FileReplacement.rule,
      "shared_breaker_store_breakers_left_out counts the breakers beyond the limit.",
    ],
    examples: [
      Example("cbctl metrics", "print the metrics of every breaker"),
      Example(
        "cbctl metrics --output /var/lib/prometheus/node-exporter/breakers.prom",
        "write them to a file, from cron or a timer"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "the metrics could not be written"]
  ) { context, parsed throws(ControlError) in
    if parsed.has("mode"), !parsed.has("output") {
      throw .usage(
        "--mode without --output", "it sets the permissions of that file", help: "metrics")
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
    let patterns = parsed.patterns
    let names = try context.names()
    let chosen = names.filter { NamePattern.matches($0, patterns) }
    let limit = Int(clamping: parsed.number("limit") ?? 1_000)
    let told = Set(chosen.prefix(limit).map { Array($0.utf8) })
    report.breakers = try context.ask { store throws(StoreError) in
      try store.snapshots(beginningWith: NamePattern.commonBeginning(of: patterns)) {
        told.contains(Array($0.utf8))
      }
    }
    report.store.breakers = names.count
    report.store.fleet = try context.fleetFigures()
    report.store.leftOut = max(0, chosen.count - limit)
    if report.store.leftOut > 0 {
      context.note(
        "left out \(report.store.leftOut) of \(CountedNoun.text(chosen.count, "breaker")): "
          + "the limit is \(limit): raise --limit or use a pattern")
    }
    let missing = patterns.first { pattern in
      pattern.isName && !chosen.contains { pattern.matches($0) }
    }
    return missing.map { .noBreaker($0.text, among: names) }
  }
}

/// A label that the command line adds to every sample, such as `store=payments`.
enum LabelText {
  /// The labels that samples already have.
  static let taken: Set<String> = [
    "name", "state", "mode", "set_by", "to", "outcome", "file", "version", "sqlite",
    "fleet",
  ]

  static func parse(_ text: String) throws(ControlError) -> Sample.Label {
    func wrong(_ why: String) -> ControlError {
      .usage("wrong label \(VisibleText.quoted(text))", why, help: "metrics")
    }
    guard let separator = text.utf8.firstIndex(of: UInt8(ascii: "=")) else {
      throw wrong("it has no value")
    }
    let name = String(text[..<separator])
    let isName = name.utf8.enumerated().allSatisfy { index, byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
      case UInt8(ascii: "_"): true
      case UInt8(ascii: "0")...UInt8(ascii: "9"): index > 0
      default: false
      }
    }
    // Prometheus reserves names that begin with two underscores.
    guard isName, !name.isEmpty, !name.hasPrefix("__") else {
      throw wrong("its name may have letters, digits and _ only")
    }
    guard !taken.contains(name) else { throw wrong("samples already have that label") }
    return Sample.Label(name: name, value: String(text[text.utf8.index(after: separator)...]))
  }

  /// All labels of a command line, none of which may occur twice.
  static func parse(_ texts: [String]) throws(ControlError) -> [Sample.Label] {
    var labels: [Sample.Label] = []
    for text in texts {
      let label = try parse(text)
      guard !labels.contains(where: { $0.name == label.name }) else {
        throw .usage(
          "wrong label \(VisibleText.quoted(text))", "it was given twice", help: "metrics")
      }
      labels.append(label)
    }
    return labels
  }
}

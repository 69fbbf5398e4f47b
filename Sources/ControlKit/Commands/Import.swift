import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let importing = CommandSpec(
    name: "import",
    summary: "restore breakers that 'cbctl export' has printed",
    arguments: [
      ArgumentSpec(
        label: "FILE", kind: .path, count: .optional,
        summary: "the file to read (default, and with -: standard input)")
    ],
    options: [
      OptionSpec(name: "replace", summary: "also restore breakers that already exist"),
      .dryRun,
    ],
    details: [
      "One transaction restores all breakers or none. Nothing is restored if a line cannot be "
        + "read, or if a breaker already exists and --replace is not given. A replaced breaker "
        + "keeps its history and totals.",
      "Other writers wait until the import is done, for about 0.1 ms a breaker. Import a large "
        + "export in parts, for example of 2,000 lines, so that no process waits too long and goes "
        + "on without the store. Each part is then restored completely or not at all.",
      "The time that has passed since the export is subtracted from the times that were left. A "
        + "half-open breaker is restored as open, and its next call is a probe.",
    ],
    examples: [
      Example("cbctl import breakers.ndjson --dry-run", "check whether the import would work"),
      Example("cbctl import breakers.ndjson", "restore every breaker of the file"),
      Example(
        "split -l 2000 --filter='cbctl import' breakers.ndjson",
        "restore a large export in parts"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable],
    meanings: [.failed: "nothing was imported"],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let source = parsed.text("FILE") ?? "-"
    let backups = try backups(in: InputText.read(source), of: source, at: context.now())
    let present = try context.present(among: backups.map(\.name))
    if !parsed.has("replace"), let name = present.first {
      throw .alreadyThere(name, count: present.count)
    }
    guard !parsed.has("dry-run") else {
      context.printSummary(of: backups, replaced: present, isDryRun: true)
      return .done
    }
    try context.ask { store throws(StoreError) in try store.connect() }
    let refused = try context.act { () throws(BreakerError) in
      try context.store.restore(backups, replacing: parsed.has("replace"))
    }
    if let name = refused.first { throw .alreadyThere(name, count: refused.count) }
    context.printSummary(of: backups, replaced: present, isDryRun: false)
    return .done
  }

  private static func backups(
    in text: String, of source: String, at now: BreakerTimestamp
  ) throws(ControlError) -> [BreakerBackup] {
    var backups: [BreakerBackup] = []
    var names: Set<NameBytes> = []
    for (index, line) in InputText.lines(of: text).enumerated() where !line.isEmpty {
      var complaint: String?
      do {
        let backup = try BreakerBackup(json: line, at: now)
        try backup.validate()
        if !names.insert(NameBytes(backup.name)).inserted { complaint = "its name occurs twice" }
        backups.append(backup)
      } catch {
        complaint = "\(error)"
      }
      if let complaint {
        throw ControlError(
          .failed, "nothing was imported", "line \(index + 1) of \(VisibleText.quoted(source))",
          VisibleText.bare(complaint))
      }
    }
    return backups
  }
}

extension ControlError {
  fileprivate static func alreadyThere(_ name: String, count: Int) -> ControlError {
    let quoted = VisibleText.quoted(name)
    let what =
      count == 1
      ? "\(quoted) already exists"
      : "\(quoted) and \(CountedNoun.text(count - 1, "other")) already exist"
    return ControlError(
      .failed, "nothing was imported", what,
      "use --replace to replace what exists")
  }
}

extension CommandContext {
  /// Which of the names exist already; none if there is no store, which this does not create.
  fileprivate func present(among names: [String]) throws(ControlError) -> [String] {
    do throws(StoreError) {
      try store.connectToExisting()
      let present = Set(try store.names().map { NameBytes($0) })
      return names.filter { present.contains(NameBytes($0)) }
    } catch {
      guard error.kind == .missing else { throw ControlError(error) }
      return []
    }
  }

  fileprivate func printSummary(of backups: [BreakerBackup], replaced: [String], isDryRun: Bool) {
    // An export before it in a pipe may have failed.
    if backups.isEmpty { note("nothing was imported: the input has no breakers") }
    let names = backups.map(\.name)
    let present = Set(replaced.map { NameBytes($0) })
    let created = names.filter { !present.contains(NameBytes($0)) }
    if global.isJSON {
      print(
        .object([
          .init("created", .array(created.map { .string($0) })),
          .init("replaced", .array(replaced.sorted().map { .string($0) })),
          .init("dry_run", .bool(isDryRun)),
        ]))
    } else if !global.isQuiet {
      for backup in backups {
        let verb = present.contains(NameBytes(backup.name)) ? "replaced" : "created"
        let state = backup.mode == .automatic ? backup.state.wireName : backup.mode.wireName
        print(
          "\(VisibleText.name(backup.name)): \(isDryRun ? "would be " : "")\(verb), \(state)\n")
      }
    }
  }
}

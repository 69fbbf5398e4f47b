import BreakerDocuments
import Glibc
import ProgramKit
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
        + "see the guide Backing Up.",
    ],
    examples: [
      Example("cbctl export > breakers.ndjson", "save every breaker"),
      Example("cbctl export 'pay-*' | ssh other cbctl import", "copy some to another host"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.patterns
    let chosen = try context.snapshots(fitting: patterns)
    let now = context.now()
    for snapshot in chosen { context.print(snapshot.backup.json(at: now) + "\n") }
    if chosen.isEmpty { context.note("nothing was exported: no breaker matches") }
    return .done
  }
}

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
      "Other writers wait until the import is done, which takes about 0.1 ms a breaker. Import a "
        + "large export in parts, such as 2,000 lines each, so that no process waits so long that it "
        + "continues without the store. Each part is then restored completely or not at all.",
      "The time since the export is subtracted from the times that were left then. A half-open "
        + "breaker is restored as open, and its next call is a probe.",
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
    let backups = try backups(
      from: source, atMost: context.mostBreakers, at: context.now())
    let (present, count) = try context.present(among: backups.map(\.name))
    if !parsed.has("replace"), let name = present.first {
      throw .alreadyThere(name, count: present.count)
    }
    guard !parsed.has("dry-run") else {
      let future = count + backups.count - present.count
      if future > max(count, context.mostBreakers) {
        throw ControlError(
          .failed, "nothing would be imported",
          "the store would have \(future) breakers, and holds at most \(context.mostBreakers)",
          "delete unused ones, for example with 'cbctl prune'")
      }
      context.printSummary(of: backups, replaced: present, isDryRun: true)
      return .done
    }
    try context.ask { store throws(StoreError) in try store.connect() }
    do throws(BreakerError) {
      try context.store.restore(backups, replacing: parsed.has("replace"))
    } catch {
      // Another process has made it since this one looked.
      guard case .alreadyExist(let names) = error, let name = names.first else {
        throw ControlError(error)
      }
      throw .alreadyThere(name, count: names.count)
    }
    context.printSummary(of: backups, replaced: present, isDryRun: false)
    return .done
  }

  private static func backups(
    from source: String, atMost limit: Int, at now: BreakerTimestamp
  ) throws(ControlError) -> [BreakerBackup] {
    var backups: [BreakerBackup] = []
    var names: Set<[UInt8]> = []
    try InputText.forEachLine(of: source) { number, line throws(ControlError) in
      if line.isEmpty { return }
      var complaint: String?
      do {
        let backup = try BreakerBackup(json: line, at: now)
        try backup.validate()
        if !names.insert(Array(backup.name.utf8)).inserted { complaint = "its name occurs twice" }
        if names.count > limit { complaint = "a store holds at most \(limit) breakers" }
        backups.append(backup)
      } catch {
        complaint = "\(error)"
      }
      if let complaint {
        throw ControlError(
          .failed, "nothing was imported", "line \(number) of \(VisibleText.quoted(source))",
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
  /// How many breakers the store may have.
  fileprivate var mostBreakers: Int {
    storeOptions.maximumBreakers ?? StoreOptions.usualMaximumBreakers
  }

  /// The names that exist already, and how many breakers there are; none if there is no store, which this does not
  /// create.
  fileprivate func present(
    among names: [String]
  ) throws(ControlError) -> (names: [String], count: Int) {
    do throws(StoreError) {
      try store.connectToExisting()
      let present = Set(try store.names().map { Array($0.utf8) })
      return (names.filter { present.contains(Array($0.utf8)) }, present.count)
    } catch {
      guard error.kind == .missing else { throw ControlError(error) }
      return ([], 0)
    }
  }

  fileprivate func printSummary(of backups: [BreakerBackup], replaced: [String], isDryRun: Bool) {
    // An export before it in a pipe may have failed.
    if backups.isEmpty { note("nothing was imported: the input has no breakers") }
    let names = backups.map(\.name)
    let present = Set(replaced.map { Array($0.utf8) })
    let created = names.filter { !present.contains(Array($0.utf8)) }
    if global.isJSON {
      print(
        .object([
          .init("created", .array(created.map { .string($0) })),
          .init("replaced", .array(replaced.sorted().map { .string($0) })),
          .init("dry_run", .bool(isDryRun)),
        ]))
    } else if !global.isQuiet {
      for backup in backups {
        let verb = present.contains(Array(backup.name.utf8)) ? "replaced" : "created"
        let state = backup.mode == .automatic ? backup.state.wireName : backup.mode.wireName
        print(
          "\(VisibleText.name(backup.name)): \(isDryRun ? "would be " : "")\(verb), \(state)\n")
      }
    }
  }
}

/// Text that is read line by line, from a file or from standard input.
///
/// It keeps only one line at a time, so it can read a file of any size, or refuse it.
struct InputText {
  /// The longest line in bytes, which is longer than any that `cbctl export` prints.
  private static let longestLine = 16_777_216

  private let path: String
  private let descriptor: Int32
  private var chunk = [UInt8](repeating: 0, count: 65_536)
  private var rest: ArraySlice<UInt8> = []
  private var isAtEnd = false

  /// Passes each line of a file to a body, with its number; `-` stands for standard input.
  ///
  /// A line ends with LF or CRLF; other line separators can be part of it.
  static func forEachLine(
    of path: String, _ body: (Int, String) throws(ControlError) -> Void
  ) throws(ControlError) {
    let descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failed(path, SystemError.text(errno), "check the path") }
    defer { if path != "-" { close(descriptor) } }
    var text = InputText(path: path, descriptor: descriptor)
    var number = 0
    while let line = try text.next() {
      number += 1
      try body(number, line)
    }
  }

  private init(path: String, descriptor: Int32) {
    self.path = path
    self.descriptor = descriptor
  }

  private mutating func next() throws(ControlError) -> String? {
    var line: [UInt8] = []
    while true {
      if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        line += rest[..<end]
        rest = rest[(end + 1)...]
        return try text(of: line)
      }
      line += rest
      guard line.count <= Self.longestLine else {
        throw Self.failed(
          path, "it has a line of more than \(Self.longestLine >> 20) MiB",
          "use the output of 'cbctl export'")
      }
      // A second reference to the chunk would make it be copied.
      rest = []
      rest = try read()
      if rest.isEmpty { return line.isEmpty ? nil : try text(of: line) }
    }
  }

  /// The next bytes of the file; none at its end.
  private mutating func read() throws(ControlError) -> ArraySlice<UInt8> {
    guard !isAtEnd else { return [] }
    while true {
      let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
      if count >= 0 {
        isAtEnd = count == 0
        return chunk[..<count]
      }
      guard errno == EINTR else {
        throw Self.failed(path, SystemError.text(errno), "check the path")
      }
    }
  }

  private func text(of line: [UInt8]) throws(ControlError) -> String {
    let bytes = line.last == UInt8(ascii: "\r") ? line.dropLast() : line[...]
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw Self.failed(path, "it is not UTF-8", "use the output of 'cbctl export'")
    }
    return text
  }

  private static func failed(_ path: String, _ why: String, _ advice: String) -> ControlError {
    ControlError(.failed, "\(VisibleText.quoted(path)) cannot be read", why, advice)
  }
}

import BreakerDocuments
import ProgramKit
public import SharedBreaker

/// The `cbctl` command line, as a function that any program can call.
public enum ControlKit {
  /// The version of the command and of the library in it.
  public static let version = SharedStore.version

  /// Runs the command line of this process, and returns how the process should end.
  public static func run() -> Ending { run(arguments: ThisProcess.arguments(), console: .system()) }

  /// Runs one command line, and returns how it ended without ending the process.
  ///
  /// `arguments` are the words after the program's name, byte for byte. `options` says how stores
  /// are opened, so that a test can use its own clock.
  public static func run(
    arguments: [[UInt8]], console: Console, options: StoreOptions = StoreOptions()
  ) -> Ending {
    let request: ArgumentParser.Request
    do {
      request = try ArgumentParser.parse(arguments)
    } catch {
      // A user who types nothing else wants to know what there is.
      let text =
        arguments.isEmpty
        ? HelpPage.overview(width: console.width)
        : "cbctl: \(VisibleText.bare(error.description))\n"
      _ = console.errorOutput(text)
      return .exit(error.code)
    }
    switch request {
    case .help(let spec):
      let width = console.width
      return show(
        spec.map { HelpPage.of($0, width: width) } ?? HelpPage.overview(width: width), on: console)
    case .version:
      return show("cbctl \(version) (SQLite \(SharedStore.sqliteVersion))\n", on: console)
    case .command(let parsed):
      return perform(parsed, console, options)
    }
  }

  /// Runs one command line whose words are all text.
  public static func run(
    arguments: [String], console: Console, options: StoreOptions = StoreOptions()
  ) -> Ending {
    run(arguments: arguments.map { Array($0.utf8) }, console: console, options: options)
  }

  private static func perform(
    _ parsed: ParsedCommand, _ console: Console, _ options: StoreOptions
  ) -> Ending {
    var options = options
    // Other commands do not look up the user, because a network directory of users can be slow.
    if parsed.spec.actsForUser { options.user = options.user ?? console.user() }
    options.command = options.command ?? parsed.commandLine.first.map(Self.name)
    let context = CommandContext(console: console, global: parsed.global, storeOptions: options)
    defer { context.store.close() }
    do {
      return context.finish(try parsed.spec.perform(context, parsed))
    } catch {
      context.complain(error.description)
      return .exit(error.code)
    }
  }

  /// The name of a command, without its folder.
  private static func name(of command: [UInt8]) -> String {
    let name = command.split(separator: UInt8(ascii: "/")).last ?? []
    return String(decoding: name, as: UTF8.self)
  }

  private static func show(_ page: String, on console: Console) -> Ending {
    let context = CommandContext(
      console: console, global: GlobalOptions([:]), storeOptions: StoreOptions())
    context.print(page)
    return context.finish(.done)
  }
}

/// How a command line ended, so that the process can end the same way.
public enum Ending: Sendable, Hashable {
  /// With an exit code.
  case code(Int32)

  /// Killed by a signal, like the command that it ran.
  ///
  /// A shell ends its loop at ^C only if the program that it ran died of the signal, so the process
  /// must raise the signal on itself.
  case signal(Int32)

  /// The code that a shell sees in either case.
  public var code: Int32 {
    switch self {
    case .code(let code): code
    case .signal(let number): 128 + number
    }
  }

  static let done = exit(.done)

  static func exit(_ code: ExitCode) -> Ending { .code(code.rawValue) }
}

/// The surroundings of a command: the store, the streams, and the form of its output.
final class CommandContext {
  let console: Console
  let global: GlobalOptions
  let storeOptions: StoreOptions
  private(set) var store: SharedStore
  let painter: Painter
  private var isOutputClosed = false
  private var outputError: Int32?

  init(console: Console, global: GlobalOptions, storeOptions: StoreOptions) {
    self.console = console
    self.global = global
    var storeOptions = storeOptions
    storeOptions.program = storeOptions.program ?? "cbctl"
    // The command prints errors itself.
    storeOptions.isQuiet = true
    self.storeOptions = storeOptions
    painter = Painter(isOn: console.hasColors && !global.isColorless)
    store = SharedStore(path: Self.path(console, global), options: storeOptions)
  }

  /// The path that the user asked for; nil leaves the choice to the library.
  private static func path(_ console: Console, _ global: GlobalOptions) -> String? {
    let named = console.environment["SHARED_BREAKER_STORE"].flatMap { $0.isEmpty ? nil : $0 }
    return global.store ?? named
  }

  /// Replaces the store, before its first use, with one that has other options.
  func changeStoreOptions(_ change: (inout StoreOptions) -> Void) {
    var options = storeOptions
    change(&options)
    store = SharedStore(path: Self.path(console, global), options: options)
  }

  /// The wall clock, for ages.
  func now() -> BreakerTimestamp { storeOptions.clock.wallTime }
}

/// Printing: data goes to standard output, messages go to standard error.
extension CommandContext {
  /// Prints data to standard output.
  func print(_ text: String) {
    guard !isOutputClosed, outputError == nil else { return }
    switch console.output(text) {
    case .written: break
    case .closed: isOutputClosed = true
    case .failed(let number): outputError = number
    }
  }

  func print(_ document: JSONValue) { print(document.text + "\n") }

  /// Why output is lost; nil as long as there may be a reader.
  var outputProblem: String? {
    isOutputClosed ? "nobody reads it" : outputError.map { SystemError.text($0) }
  }

  /// Whether there may still be a reader.
  var isOutputOpen: Bool { outputProblem == nil }

  /// Prints a message to standard error, unless `--quiet` was given.
  func note(_ words: String) {
    if !global.isQuiet { complain(words) }
  }

  /// Prints an error message, and ignores errors of its own, which nothing could report.
  func complain(_ words: String) {
    _ = console.errorOutput("cbctl: \(VisibleText.bare(words))\n")
  }

  /// The ending of a command, which is a failure if its output was lost.
  func finish(_ ending: Ending) -> Ending {
    guard let outputError else { return ending }
    complain(
      "cannot write to standard output: \(SystemError.text(outputError)): "
        + "free some space, or print elsewhere")
    return ending == .done ? .exit(.failed) : ending
  }
}

/// Using the store, with its errors turned into the command's.
extension CommandContext {
  /// Uses the store; an error of the store becomes the command's error.
  func ask<Answer>(
    _ work: (SharedStore) throws(StoreError) -> Answer
  ) throws(ControlError) -> Answer {
    do { return try work(store) } catch { throw ControlError(error) }
  }

  /// Uses a breaker; an error of the breaker becomes the command's error.
  func act<Answer>(
    _ work: () throws(BreakerError) -> Answer
  ) throws(ControlError) -> Answer {
    do { return try work() } catch { throw ControlError(error) }
  }

  /// Opens an existing store, because a command that only reads never creates one.
  func connectToExisting() throws(ControlError) {
    do { try store.connectToExisting() } catch {
      throw error.kind == .missing ? noStoreYet() : ControlError(error)
    }
  }

  func noStoreYet() -> ControlError {
    ControlError(
      .storeUnavailable, "no store yet at \(VisibleText.bare(store.path))",
      "its first use creates it")
  }

  func names() throws(ControlError) -> [String] {
    try connectToExisting()
    return try ask { store throws(StoreError) in try store.names() }
  }

  /// The breakers that match names and patterns, or all of them; a plain name must exist.
  func snapshots(
    fitting patterns: [NamePattern], in state: BreakerState? = nil
  ) throws(ControlError) -> [BreakerSnapshot] {
    try connectToExisting()
    var named: [BreakerSnapshot] = []
    for pattern in patterns where pattern.isName {
      named.append(try snapshot(of: pattern.text))
    }
    if !patterns.isEmpty, named.count == patterns.count {
      return named.filter { state == nil || $0.state == state }
    }
    return try matching(patterns, in: state)
  }

  /// The breakers that match names and patterns, by name; names that do not exist are skipped.
  func matching(
    _ patterns: [NamePattern], in state: BreakerState? = nil
  ) throws(ControlError) -> [BreakerSnapshot] {
    let beginning = NamePattern.commonBeginning(of: patterns)
    return try ask { store throws(StoreError) in
      try store.snapshots(beginningWith: beginning, in: state) { NamePattern.matches($0, patterns) }
    }
  }

  /// The breakers that a command shall change: plain names as they are, and those that there are for a pattern.
  ///
  /// A name that looks like a pattern means its own breaker if there is one.
  ///
  /// - Throws: If nothing matches a pattern.
  func chosen(_ patterns: [NamePattern]) throws(ControlError) -> ChosenBreakers {
    guard patterns.contains(where: \.hasWildcard) else {
      return ChosenBreakers(names: patterns.map(\.text))
    }
    let all = try names()
    let existing = Set(all.map { Array($0.utf8) })
    var (found, areMatches): ([String], Bool) = ([], false)
    for pattern in patterns {
      if !pattern.hasWildcard || existing.contains(Array(pattern.text.utf8)) {
        found.append(pattern.text)
        continue
      }
      areMatches = true
      let matching = all.filter { pattern.matches($0) }
      if matching.isEmpty {
        throw ControlError(
          .noBreaker, "no breaker matches \(VisibleText.quoted(pattern.text))",
          "nothing was changed",
          "'cbctl status' lists all")
      }
      found += matching
    }
    // Bytes tell names apart that Swift considers equal.
    var known: Set<[UInt8]> = []
    let names = found.filter { known.insert(Array($0.utf8)).inserted }
    return ChosenBreakers(names: names, areMatches: areMatches)
  }

  /// The breaker with a name, or all that match if it is a pattern.
  ///
  /// - Throws: If there is none.
  func shown(_ text: String) throws(ControlError) -> [BreakerSnapshot] {
    try connectToExisting()
    let found = try ask { store throws(StoreError) in try store.snapshot(of: text) }
    if let found { return [found] }
    let pattern = NamePattern(text)
    let matching = pattern.isName ? [] : try matching([pattern])
    guard !matching.isEmpty else { throw .noBreaker(text, among: try names()) }
    return matching
  }

  /// The snapshot of a breaker that must exist.
  func snapshot(of name: String) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if let found { return found }
    throw .noBreaker(name, among: try names())
  }
}

/// The breakers that a command line means.
struct ChosenBreakers {
  var names: [String]

  /// Whether some match a pattern, or all are meant, so that the command line does not name them.
  var areMatches = false
}

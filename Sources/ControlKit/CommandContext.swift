import BreakerDocuments
import ProgramKit
import SharedBreaker

/// What a command works with: the store, the streams, and the form of its output.
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

  /// The snapshot of a breaker that must exist.
  func snapshot(of name: String) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if let found { return found }
    throw .noBreaker(name, among: try names())
  }
}

/// Changing breakers.
extension CommandContext {
  /// A breaker that must exist; a change to it fails if the store fails.
  func existingBreaker(
    _ name: String, for fleet: FleetStanding? = nil
  ) throws(ControlError) -> Breaker {
    try connectToExisting()
    let found = try act { () throws(BreakerError) in try store.existingBreaker(name) }
    if let found { return found }
    guard fleet != nil else { throw .noBreaker(name, among: try names()) }
    throw .noBreaker(
      name, among: try names(),
      remedy: "this host has none of that name: run the command on a host that has it, which "
        + "'cbctl fleet status --all' shows")
  }

  /// Returns the breaker with a name, which its first change creates, and creates the store now.
  func madeBreaker(_ name: String) throws(ControlError) -> Breaker {
    try act { () throws(BreakerError) in try Breaker.validate(name: name) }
    try ask { store throws(StoreError) in try store.connect() }
    return try act { () throws(BreakerError) in
      try store.breaker(name, onStoreFailure: .throw)
    }
  }

  /// Prints the states of breakers after a change, which may be for a whole fleet.
  func printState(of names: [String], after fleet: FleetStanding? = nil) throws(ControlError) {
    var snapshots: [BreakerSnapshot] = []
    for name in names {
      let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
      // Another process may have deleted it since.
      if let found { snapshots.append(found) }
    }
    if global.isJSON {
      print(BreakerDocument.list(snapshots))
    } else if !global.isQuiet {
      print(snapshots.map { StateLine.text(of: $0) + fleet.words + "\n" }.joined())
    }
    noteDelay(of: fleet)
  }

  /// Prints that a call was rejected and when to retry; throws any other error.
  func reject(_ error: BreakerError) throws(ControlError) -> Ending {
    guard case .rejected(let name, let rejection) = error else { throw ControlError(error) }
    if global.isJSON {
      print(
        .object([
          .init("permitted", .bool(false)),
          .init("state", .string(rejection.state.wireName)),
          .init("retry_after_ms", JSONValue(milliseconds: rejection.retryAfter)),
        ]))
    } else {
      note("\(VisibleText.name(name)): rejected: \(rejection.spoken)")
    }
    return .exit(.rejected)
  }

  /// Asks for confirmation at a terminal; without a terminal, `--yes` is required.
  ///
  /// - Parameters:
  ///   - question: What to ask.
  ///   - parsed: The command line.
  ///   - subject: What needs the confirmation; nil for the command with `--all`.
  /// - Throws: If nobody can be asked, or if the answer is no. Nothing has been done then.
  func confirm(
    _ question: String, _ parsed: ParsedCommand, for subject: String? = nil
  ) throws(ControlError) {
    if parsed.has("yes") { return }
    guard let ask = console.ask else {
      throw ControlError(
        .usage, subject ?? "\(parsed.spec.name) --all", "there is no terminal to confirm it at",
        "add --yes")
    }
    guard ask("\(question) [y/N] ") else {
      throw ControlError(.failed, "nothing was done", "you did not confirm it", "answer y to do it")
    }
  }
}

extension Rejection {
  /// Why the call was rejected and for how long, for people.
  var spoken: String {
    var rounded = self
    rounded.retryAfter = retryAfter.map(SpokenDuration.rounded)
    return rounded.description
  }
}

/// Commands to a whole fleet.
extension CommandContext {
  /// The fleet that a command is for; nil without `--fleet`.
  ///
  /// A command calls this before it changes anything.
  ///
  /// - Throws: If no relay runs on this host, because nothing would tell the other hosts.
  func fleet(of parsed: ParsedCommand) throws(ControlError) -> FleetStanding? {
    guard parsed.has("fleet") else { return nil }
    var standing: FleetStanding?
    do throws(StoreError) {
      try store.connectToExisting()
      standing = try store.fleetStanding()
    } catch {
      // Without a store there is no relay either, and the relay has to be started first.
      if error.kind != .missing { throw ControlError(error) }
    }
    if let standing, standing.isRelayRunning { return standing }
    throw ControlError(
      .storeUnavailable, "nothing was changed", "cbrelay does not run on this host",
      "start it, or leave out --fleet to act on this host alone")
  }

  /// Says why other hosts get a command later, if the relay cannot tell them now.
  func noteDelay(of fleet: FleetStanding?) {
    guard let fleet, !fleet.isConnected else { return }
    let problem = fleet.problem.map { " (\(VisibleText.bare($0)))" } ?? ""
    note(
      "the relay of this host cannot reach the fleet\(problem): it tells the other hosts as soon as "
        + "it can")
  }
}

extension FleetStanding? {
  /// The scope of a command that was given with `--fleet`, or without it.
  var scope: CommandScope { self == nil ? .host : .fleet }

  /// The end of a line about a changed breaker.
  var words: String {
    guard let standing = self else { return "" }
    let hosts = standing.isConnected ? "for every host" : "on this host, and later on the others"
    return "; \(hosts) of fleet \(VisibleText.name(standing.fleet))"
  }
}

/// Options that several commands share.
extension OptionSpec {
  static let reason = OptionSpec(
    name: "reason", kind: .remark, summary: "why, as the history will show it")
  static let fleet = OptionSpec(
    name: "fleet", summary: "do the same on every host of the fleet, through cbrelay")
  static let yes = OptionSpec(name: "yes", letter: "y", summary: "do not ask for confirmation")
  static let dryRun = OptionSpec(
    name: "dry-run", summary: "print what would be done, and do nothing")
}

import BreakerDocuments
import ProgramKit
import SharedBreaker

/// What a command works with: the store, the streams, and the form of the answer.
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
    self.storeOptions = storeOptions
    painter = Painter(isOn: console.hasColors && !global.isColorless)
    store = SharedStore(path: Self.path(console, global), options: storeOptions)
  }

  /// The path that the user asked for; nil leaves the choice to the library.
  private static func path(_ console: Console, _ global: GlobalOptions) -> String? {
    let named = console.environment["SHARED_BREAKER_STORE"].flatMap { $0.isEmpty ? nil : $0 }
    return global.store ?? named
  }

  /// Replaces the store with one that has other options, before its first use.
  func changeStoreOptions(_ change: (inout StoreOptions) -> Void) {
    var options = storeOptions
    change(&options)
    store = SharedStore(path: Self.path(console, global), options: options)
  }
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

  /// Why output does not arrive; nil as long as there may be a reader.
  var outputProblem: String? {
    isOutputClosed ? "nobody reads it" : outputError.map { SystemError.text($0) }
  }

  /// Whether there may still be a reader.
  var isOutputOpen: Bool { outputProblem == nil }

  func print(_ document: JSONValue) { print(document.text + "\n") }

  /// Prints a message beside the data, unless `--quiet` was given.
  func note(_ words: String) {
    if !global.isQuiet { complain(words) }
  }

  /// Prints an error message; if that fails too, nothing else can be done.
  func complain(_ words: String) {
    _ = console.errorOutput("cbctl: \(VisibleText.bare(words))\n")
  }

  /// The ending of a command, corrected if its output did not arrive.
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

  /// Opens an existing store; a command that only looks never creates one.
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
    fitting patterns: [NamePattern], in state: BreakerState?
  ) throws(ControlError) -> [BreakerSnapshot] {
    try connectToExisting()
    var named: [BreakerSnapshot] = []
    for pattern in patterns where pattern.isName {
      named.append(try snapshot(of: pattern.text))
    }
    if !patterns.isEmpty, named.count == patterns.count {
      return named.filter { state == nil || $0.state == state }
    }
    let beginning = NamePattern.commonBeginning(of: patterns)
    return try ask { store throws(StoreError) in
      try store.snapshots(beginningWith: beginning, in: state) { name in
        patterns.isEmpty || patterns.contains { $0.matches(name) }
      }
    }
  }

  /// The snapshot of a breaker that must exist.
  func snapshot(of name: String) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if let found { return found }
    throw try noBreaker(name)
  }

  /// A breaker that must exist; a change to it fails if the store fails.
  func existingBreaker(
    _ name: String, for fleet: FleetStanding? = nil
  ) throws(ControlError) -> Breaker {
    try connectToExisting()
    let found = try act { () throws(BreakerError) in try store.existingBreaker(name) }
    if let found { return found }
    guard fleet != nil else { throw try noBreaker(name) }
    throw .noBreaker(
      name, among: try names(),
      remedy: "this host has none of that name: run the command on a host that has it, which "
        + "'cbctl fleet status --all' shows")
  }

  private func noBreaker(_ name: String) throws(ControlError) -> ControlError {
    .noBreaker(name, among: try names())
  }
}

/// The time.
extension CommandContext {
  /// The wall clock, for ages.
  func now() -> BreakerTimestamp { storeOptions.clock.wallTime }
}

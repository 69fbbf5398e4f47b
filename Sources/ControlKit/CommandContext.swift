import SharedBreaker

/// What a command works with: the store, the streams, and how the answer is to look.
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

  /// The path that was asked for; nil leaves the choice to the library.
  private static func path(_ console: Console, _ global: GlobalOptions) -> String? {
    let named = console.environment["SHARED_BREAKER_STORE"].flatMap { $0.isEmpty ? nil : $0 }
    return global.store ?? named
  }

  /// Makes the store anew with other options, before its first use.
  func changeStoreOptions(_ change: (inout StoreOptions) -> Void) {
    var options = storeOptions
    change(&options)
    store = SharedStore(path: Self.path(console, global), options: options)
  }
}

/// Printing: data on one stream, words on the other.
extension CommandContext {
  /// Prints data.
  func print(_ text: String) {
    guard !isOutputClosed, outputError == nil else { return }
    switch console.output(text) {
    case .written: break
    case .closed: isOutputClosed = true
    case .failed(let number): outputError = number
    }
  }

  /// Why what is printed does not arrive; nil as long as there may be somebody who reads.
  var outputProblem: String? {
    isOutputClosed ? "nobody reads it" : outputError.map { SystemError.text($0) }
  }

  /// Whether there may still be somebody who reads.
  var isOutputOpen: Bool { outputProblem == nil }

  func print(_ document: JSONValue) { print(document.text + "\n") }

  /// Says something that goes beside the data.
  func note(_ words: String) {
    if !global.isQuiet { complain(words) }
  }

  /// Says what went wrong; nobody can be told if even that cannot be written.
  func complain(_ words: String) {
    _ = console.errorOutput("cbctl: \(VisibleText.bare(words))\n")
  }

  /// How a command ended whose output may not have arrived.
  func finish(_ ending: Ending) -> Ending {
    guard let outputError else { return ending }
    complain(
      "standard output cannot be written: \(SystemError.text(outputError)): "
        + "free space or print elsewhere")
    return ending == .done ? .exit(.failed) : ending
  }
}

/// The store, with what goes wrong made the command's error.
extension CommandContext {
  /// Does something with the store; what it says about it becomes the command's error.
  func ask<Answer>(
    _ work: (SharedStore) throws(StoreError) -> Answer
  ) throws(ControlError) -> Answer {
    do { return try work(store) } catch { throw ControlError(error) }
  }

  /// Does something with a breaker; what goes wrong becomes the command's error.
  func act<Answer>(
    _ work: () throws(BreakerError) -> Answer
  ) throws(ControlError) -> Answer {
    do { return try work() } catch { throw ControlError(error) }
  }

  /// Opens the store that there is; a store is never made only to be looked at.
  func connectToExisting() throws(ControlError) {
    do { try store.connectToExisting() } catch {
      throw error.kind == .missing ? noStoreYet() : ControlError(error)
    }
  }

  func noStoreYet() -> ControlError {
    ControlError(
      .storeUnavailable, "no store yet at \(VisibleText.bare(store.path))",
      "its first use makes it")
  }

  func names() throws(ControlError) -> [String] {
    try connectToExisting()
    return try ask { store throws(StoreError) in try store.names() }
  }

  /// The breakers that names and patterns stand for, all if there are none; a name must be one.
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

  /// The breaker of a name that must be there.
  func snapshot(of name: String) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if let found { return found }
    throw try noBreaker(name)
  }

  /// The breaker of a name that must be there; a change to it fails if the store does.
  func existingBreaker(_ name: String) throws(ControlError) -> Breaker {
    try connectToExisting()
    let found = try act { () throws(BreakerError) in try store.existingBreaker(name) }
    if let found { return found }
    throw try noBreaker(name)
  }

  private func noBreaker(_ name: String) throws(ControlError) -> ControlError {
    .noBreaker(name, among: try names())
  }
}

/// The time.
extension CommandContext {
  /// The wall clock, for ages.
  func now() -> Timestamp { storeOptions.clock.wallTime }
}

/// One command as a value, from which parsing, help and the manual are made.
struct CommandSpec: Sendable {
  var name: String

  /// A few words that begin with a verb and say what the command does.
  var summary: String

  var arguments: [ArgumentSpec] = []
  var options: [OptionSpec] = []

  /// Further paragraphs of help.
  var details: [String] = []

  var examples: [Example] = []
  var exitCodes: [ExitCode] = [.done, .usage, .noBreaker, .storeUnavailable]

  /// The meanings of exit codes for this command, where their summaries cover other commands too.
  ///
  /// No dictionary, whose type would cost every command a search through all conformances.
  var meanings: KeyValuePairs<ExitCode, String> = [:]

  /// Whether the command takes the breaker's policy as options.
  var takesPolicy = false

  /// Whether the history names the user who runs this command.
  var actsForUser = false

  /// Runs the command, and returns how it ended.
  var perform: @Sendable (CommandContext, ParsedCommand) throws(ControlError) -> Ending

  /// The command's own options and, if it takes them, the words of a policy.
  var allOptions: [OptionSpec] { options + (takesPolicy ? OptionSpec.policy : []) }

  /// Whether a command line for another program follows after `--`.
  var takesCommandLine: Bool { arguments.last?.kind == .commandLine }
}

/// A positional argument of a command.
struct ArgumentSpec: Sendable, Hashable {
  enum Count: Sendable, Hashable {
    case one, optional, any, several
  }

  var label: String
  var kind: ValueKind
  var count: Count = .one
  var summary: String

  /// The breakers that a command prints.
  static let patterns = ArgumentSpec(
    label: "NAME", kind: .pattern, count: .any,
    summary: "a name, or a pattern with *, ? or [a-z] (default: every breaker)")

  /// The breakers that a command changes, of which a pattern means existing ones.
  static func changed(_ summary: String, _ count: Count = .one) -> ArgumentSpec {
    ArgumentSpec(label: "NAME", kind: .name, count: count, summary: summary)
  }

  /// The argument in a usage line.
  var usage: String {
    if kind == .commandLine { return "-- \(label)..." }
    return switch count {
    case .one: label
    case .optional: "[\(label)]"
    case .any: "[\(label)...]"
    case .several: "\(label)..."
    }
  }
}

/// An option of a command.
struct OptionSpec: Sendable, Hashable {
  var name: String

  /// The letter of the short form, after a single dash.
  var letter: Character?

  /// The kind of the option's value; nil if it takes none.
  var kind: ValueKind?
  var isRepeatable = false

  /// Why the command does nothing without the option; nil if it can be left out.
  var need: String?
  var summary: String

  /// The option as help shows it.
  var usage: String { (letter.map { "-\($0), " } ?? "") + longUsage }

  /// The option with its long name alone, for the usage line of a command that needs it.
  var longUsage: String {
    "--\(name)" + (kind.map { " \($0.placeholder)" } ?? "") + (isRepeatable ? "..." : "")
  }
}

/// A command line to copy, and its purpose.
struct Example: Sendable, Hashable {
  var line: String
  var purpose: String

  init(_ line: String, _ purpose: String) {
    self.line = line
    self.purpose = purpose
  }
}

extension CommandSpec {
  /// Every command, in the order of help.
  static let all: [CommandSpec] = [
    status, show, history, watch, wait, check, policy, reset, trip, force, hold, run, acquire,
    report,
    fleet, page, metrics, delete, prune, export, importing, backup, restore, initialize, doctor,
    completion, help,
  ]

  /// The commands that only programs use, which help leaves out.
  private static let hidden: [CommandSpec] = [complete]

  static func named(_ name: String) -> CommandSpec? { (all + hidden).first { $0.name == name } }
}

/// The options that every command takes, before or after its name.
struct GlobalOptions: Sendable, Hashable {
  var store: String?
  var isJSON = false
  var isColorless = false
  var isQuiet = false

  static let specs = [
    OptionSpec(name: "store", kind: .path, summary: "the store's file"),
    OptionSpec(name: "json", summary: "print JSON"),
    OptionSpec(name: "no-color", summary: "print without colours, as with NO_COLOR"),
    OptionSpec(name: "quiet", letter: "q", summary: "print only errors and the data you asked for"),
    OptionSpec(name: "help", letter: "h", summary: "show the help of the command"),
    OptionSpec(name: "version", summary: "print the version"),
  ]

  init(_ values: [String: [ParsedValue]]) {
    if case .text(let path)? = values["store"]?.last { store = path }
    isJSON = values["json"] != nil
    isColorless = values["no-color"] != nil
    isQuiet = values["quiet"] != nil
  }
}

/// Parses a command line by the table of commands; it knows no command itself.
struct ArgumentParser {
  private var words: ArraySlice<[UInt8]>
  private var spec: CommandSpec?
  private var globals: [String: [ParsedValue]] = [:]
  private var values: [String: [ParsedValue]] = [:]
  private var places: [String] = []

  /// The request of the command line.
  enum Request {
    case help(CommandSpec?)
    case version
    case command(ParsedCommand)
  }

  static func parse(_ words: [[UInt8]]) throws(ControlError) -> Request {
    var parser = ArgumentParser(words: words[...])
    return try parser.parse()
  }

  private mutating func parse() throws(ControlError) -> Request {
    if let request = early() { return request }
    while let bytes = words.first, !isEnd(bytes) {
      words = words.dropFirst()
      if bytes.first == UInt8(ascii: "-"), bytes.count > 1 {
        try readOption(bytes)
      } else if spec == nil {
        spec = try Self.command(try text(bytes))
      } else {
        places.append(try text(bytes))
      }
    }
    guard let spec else {
      throw .usage("missing command", "cbctl needs one", help: nil)
    }
    var parsed = ParsedCommand(spec: spec, global: GlobalOptions(globals))
    try readRest(into: &parsed)
    try fill(&parsed)
    return .command(parsed)
  }

  /// Returns a request for help or the version, which takes precedence over errors in the line.
  private func early() -> Request? {
    var own: [String] = []
    var isRemark = false
    for bytes in words.prefix(while: { !isEnd($0) }) {
      let word = String(decoding: bytes, as: UTF8.self)
      // The text of a remark, such as an error, can look like an option.
      if !isRemark || word == "--help" { own.append(word) }
      isRemark = !isRemark && Self.takesRemark(word)
    }
    if own.contains("--help") || own.contains("-h") {
      return .help(own.lazy.compactMap { CommandSpec.named($0) }.first)
    }
    return own.contains("--version") ? .version : nil
  }

  private static func takesRemark(_ word: String) -> Bool {
    CommandSpec.all.contains { spec in
      spec.options.contains { $0.kind == .remark && word == "--\($0.name)" }
    }
  }

  private func isEnd(_ bytes: [UInt8]) -> Bool { bytes == Array("--".utf8) }

  private func text(_ bytes: [UInt8]) throws(ControlError) -> String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    let quoted = VisibleText.quoted(String(decoding: bytes, as: UTF8.self))
    throw .usage("wrong argument \(quoted)", "it is not valid UTF-8", help: spec?.name)
  }

  static func command(_ word: String) throws(ControlError) -> CommandSpec {
    if let spec = CommandSpec.named(word) { return spec }
    let names = CommandSpec.all.map(\.name)
    let remedy = Suggestion.nearest(to: word, among: names).map { "did you mean '\($0)'?" }
    throw ControlError(
      .usage, "unknown command \(VisibleText.quoted(word))", remedy ?? "run 'cbctl --help'")
  }

  private mutating func readOption(_ bytes: [UInt8]) throws(ControlError) {
    // By bytes, because the sign and a combining mark after it would be one character.
    let separator = bytes.firstIndex(of: UInt8(ascii: "="))
    guard let option = option(bytes) else {
      throw unknown(try text(Array(bytes[..<(separator ?? bytes.endIndex)])))
    }
    let attached = separator.map { Array(bytes[($0 + 1)...]) }
    let value = try value(of: option, attached: attached)
    if GlobalOptions.specs.contains(option) {
      globals[option.name, default: []].append(value)
    } else {
      values[option.name, default: []].append(value)
    }
  }

  /// The option in a word, which may have its value attached.
  private func option(_ bytes: [UInt8]) -> OptionSpec? {
    let name = bytes.prefix { $0 != UInt8(ascii: "=") }
    return (GlobalOptions.specs + (spec?.allOptions ?? [])).first { option in
      if let letter = option.letter, bytes.elementsEqual("-\(letter)".utf8) { return true }
      return name.elementsEqual("--\(option.name)".utf8)
    }
  }

  private mutating func value(
    of option: OptionSpec, attached: [UInt8]?
  ) throws(ControlError) -> ParsedValue {
    guard let kind = option.kind else {
      guard attached != nil else { return .flag }
      throw .usage("--\(option.name) was given a value", "it takes none", help: spec?.name)
    }
    if let attached { return try read(text(attached, of: kind), kind, "--\(option.name)") }
    guard let next = words.first, mayBeValue(next, of: kind) else {
      throw ControlError(
        .usage, "missing value for --\(option.name)", "it is the last word or before an option",
        "\(kind.form), or write --\(option.name)=VALUE")
    }
    words = words.dropFirst()
    return try read(text(next, of: kind), kind, "--\(option.name)")
  }

  private func mayBeValue(_ next: [UInt8], of kind: ValueKind) -> Bool {
    guard next.starts(with: "--".utf8) else { return true }
    return kind == .remark && !isEnd(next) && option(next) == nil
  }

  /// The text of a word; a remark is repaired, so that one wrong byte does not lose it.
  private func text(_ bytes: [UInt8], of kind: ValueKind) throws(ControlError) -> String {
    kind == .remark ? String(decoding: bytes, as: UTF8.self) : try text(bytes)
  }

  private func read(
    _ text: String, _ kind: ValueKind, _ label: String
  ) throws(ControlError) -> ParsedValue {
    do { return try kind.parse(text) } catch {
      let quoted = VisibleText.quoted(text)
      guard let why = error.why else {
        throw ControlError(.usage, "wrong \(label) \(quoted)", error.remedy)
      }
      throw ControlError(.usage, "wrong \(label) \(quoted)", VisibleText.bare(why), error.remedy)
    }
  }

  private func unknown(_ word: String) -> ControlError {
    let own = (GlobalOptions.specs + (spec?.allOptions ?? [])).map { "--\($0.name)" }
    let what = "unknown option \(VisibleText.quoted(word))"
    let why = "\(spec?.name ?? "cbctl") has no such option"
    if let meant = Suggestion.nearest(to: word, among: own) {
      return ControlError(.usage, what, why, "did you mean '\(meant)'?")
    }
    let ofCommands = CommandSpec.all.flatMap(\.allOptions).map { "--\($0.name)" }
    if spec == nil, ofCommands.contains(word) {
      return ControlError(.usage, what, "it is an option of a command", "put it after the command")
    }
    return .usage(what, why, help: spec?.name)
  }

  private mutating func readRest(into parsed: inout ParsedCommand) throws(ControlError) {
    let rest = words.dropFirst()
    if parsed.spec.takesCommandLine {
      parsed.commandLine = Array(rest)
      return
    }
    for bytes in rest { places.append(try text(bytes)) }
  }

  private func fill(_ parsed: inout ParsedCommand) throws(ControlError) {
    var places = places[...]
    for argument in parsed.spec.arguments where argument.kind != .commandLine {
      let isLong = argument.count == .any || argument.count == .several
      let taken = isLong ? places : places.prefix(1)
      places = places.dropFirst(taken.count)
      if taken.isEmpty, argument.count == .one || argument.count == .several {
        throw .usage("missing \(argument.label)", argument.summary, help: parsed.spec.name)
      }
      if taken.isEmpty { continue }
      var read: [ParsedValue] = []
      for text in taken { read.append(try self.read(text, argument.kind, argument.label)) }
      parsed.values[argument.label] = read
    }
    parsed.values.merge(values) { $1 }
    if let extra = places.first {
      for text in self.places {
        let options = parsed.spec.options.filter { $0.isRepeatable && Self.takes($0, text) }
        guard let option = options.first else { continue }
        throw ControlError(
          .usage, "unexpected argument \(VisibleText.quoted(text))",
          "--\(option.name) takes one value", "write --\(option.name) before each")
      }
      let why = parsed.spec.takesCommandLine ? "the command comes after --" : "it is one too many"
      throw .usage(
        "unexpected argument \(VisibleText.quoted(extra))", why, help: parsed.spec.name)
    }
    for option in parsed.spec.options where !parsed.has(option.name) {
      guard let need = option.need else { continue }
      throw .usage("no --\(option.name)", need, help: parsed.spec.name)
    }
    if parsed.spec.takesCommandLine, parsed.commandLine.isEmpty {
      throw .usage("missing COMMAND", "it comes after --", help: parsed.spec.name)
    }
  }

  /// Whether a text is a valid value of an option.
  private static func takes(_ option: OptionSpec, _ text: String) -> Bool {
    do {
      _ = try option.kind?.parse(text)
      return option.kind != nil
    } catch {
      return false
    }
  }
}

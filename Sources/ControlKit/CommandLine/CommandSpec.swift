/// One command as a value, from which parsing, help and the manual are made.
struct CommandSpec: Sendable {
  var name: String

  /// What the command does, in a few words that begin with a verb.
  var summary: String

  var arguments: [ArgumentSpec] = []
  var options: [OptionSpec] = []

  /// Further paragraphs of help.
  var details: [String] = []

  var examples: [Example] = []
  var exitCodes: [ExitCode] = [.done, .usage, .noBreaker, .storeUnavailable]

  /// What an exit code means for this command, where its summary is about others too.
  var meanings: [ExitCode: String] = [:]

  /// Whether the command takes the breaker's policy as options.
  var takesPolicy = false

  /// Whether the command does something that the history names its user for.
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

  /// The argument as a usage line shows it.
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
  var summary: String

  /// The option as help shows it.
  var usage: String {
    (letter.map { "-\($0), " } ?? "") + "--\(name)" + (kind.map { " \($0.placeholder)" } ?? "")
      + (isRepeatable ? "..." : "")
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
    status, show, history, watch, wait, check, policy, reset, trip, force, run, acquire, report,
    fleet, page, metrics, delete, prune, export, importing, initialize, doctor, completion, help,
  ]

  /// The commands that only programs use, which no list for people shows.
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

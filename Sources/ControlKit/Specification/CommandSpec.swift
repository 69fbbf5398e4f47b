/// One command as a value: parsing, help and the manual are all made from it.
struct CommandSpec: Sendable {
  var name: String

  /// What it does, in a few words that begin with a verb.
  var summary: String

  var arguments: [ArgumentSpec] = []
  var options: [OptionSpec] = []

  /// What else there is to know, one paragraph each.
  var details: [String] = []

  var examples: [Example] = []
  var exitCodes: [ExitCode] = [.done, .usage, .noBreaker, .storeUnavailable]

  /// Whether the breaker's policy can be given as options.
  var takesPolicy = false

  /// Does the work, and answers with how it ended.
  var perform: @Sendable (CommandContext, ParsedCommand) throws(ControlError) -> Ending

  /// The command's own options and, where it takes them, the words of a policy.
  var allOptions: [OptionSpec] { options + (takesPolicy ? OptionSpec.policy : []) }

  /// Whether a command line for another program follows after `--`.
  var takesCommandLine: Bool { arguments.last?.kind == .commandLine }
}

/// A word of the command line that is told by its place.
struct ArgumentSpec: Sendable, Hashable {
  enum Count: Sendable, Hashable {
    case one, optional, any, several
  }

  var label: String
  var kind: ValueKind
  var count: Count = .one
  var summary: String

  /// The argument as a line of usage has it.
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

/// A word of the command line that is told by its name.
struct OptionSpec: Sendable, Hashable {
  var name: String

  /// The letter that stands for the name after a single dash.
  var letter: Character?

  /// What the option takes after it; nil for one that is only there or not.
  var kind: ValueKind?
  var isRepeatable = false
  var summary: String

  /// The option as help lists it.
  var usage: String {
    (letter.map { "-\($0), " } ?? "") + "--\(name)" + (kind.map { " \($0.placeholder)" } ?? "")
      + (isRepeatable ? "..." : "")
  }
}

/// A command line that can be copied, and what it is good for.
struct Example: Sendable, Hashable {
  var line: String
  var purpose: String

  init(_ line: String, _ purpose: String) {
    self.line = line
    self.purpose = purpose
  }
}

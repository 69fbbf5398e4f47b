/// A list on a page, from which both help and the manual are made.
struct HelpSection: Sendable {
  struct Row: Sendable {
    var label: String
    var summary: String

    init(_ label: String, _ summary: String) {
      self.label = label
      self.summary = summary
    }
  }

  /// The heading in help.
  var title: String

  /// The heading in the manual.
  var heading: String
  var rows: [Row] = []
  var examples: [Example] = []

  init(_ title: String, heading: String, rows: [Row] = [], examples: [Example] = []) {
    self.title = title
    self.heading = heading
    self.rows = rows
    self.examples = examples
  }
}

extension HelpSection {
  /// The lists on the page of a command.
  static func all(of spec: CommandSpec) -> [HelpSection] {
    let sections = [
      HelpSection(
        "Arguments", heading: "ARGUMENTS",
        rows: spec.arguments.map { Row($0.label, $0.summary) }),
      HelpSection("Options", heading: "OPTIONS", rows: rows(of: spec.options)),
      HelpSection(
        "Policy, which this command declares for every process", heading: "POLICY OPTIONS",
        rows: spec.takesPolicy ? rows(of: OptionSpec.policy) : []),
      HelpSection(
        "Options of every command", heading: "GENERAL OPTIONS", rows: rows(of: GlobalOptions.specs)),
      HelpSection("Examples", heading: "EXAMPLES", examples: spec.examples),
      HelpSection("Exit codes", heading: "EXIT STATUS", rows: rows(ofCodesOf: spec)),
    ]
    return sections.filter { !$0.rows.isEmpty || !$0.examples.isEmpty }
  }

  /// The lists on the first page.
  static func overview() -> [HelpSection] {
    [
      HelpSection(
        "Commands", heading: "COMMANDS",
        rows: CommandSpec.all.map { Row($0.name, $0.summary) }),
      HelpSection(
        "Options, before or after the command", heading: "OPTIONS",
        rows: rows(of: GlobalOptions.specs)),
      HelpSection(
        "Help topics", heading: "HELP TOPICS",
        rows: HelpTopic.all.map { Row("help \($0.name)", $0.summary) }),
    ]
  }

  static func rows(of options: [OptionSpec]) -> [Row] {
    options.map { Row($0.usage, $0.summary) }
  }

  private static func rows(ofCodesOf spec: CommandSpec) -> [Row] {
    spec.exitCodes.map { Row(String($0.rawValue), spec.meanings[$0] ?? $0.summary) }
  }

  static func rows(of codes: [ExitCode]) -> [Row] {
    codes.map { Row(String($0.rawValue), $0.summary) }
  }
}

/// Renders the table of commands as pages of help.
enum HelpPage {
  /// The width of a page, unless the terminal is narrower.
  static let width = 80

  /// The width below which a label has a line of its own.
  private static let narrow = 64

  /// The page of `cbctl --help`.
  static func overview(width: Int? = nil) -> String {
    var page = Page(width: width)
    page.line(purpose)
    page.section("Usage: \(usage)")
    page.add(HelpSection.overview())
    page.section("Run 'cbctl COMMAND --help' for the help of one command.")
    return page.text
  }

  static let purpose =
    "Inspect and control the circuit breakers that the processes of this host share."
  static let usage = "cbctl [options] COMMAND ..."

  /// The page of one command.
  static func of(_ spec: CommandSpec, width: Int? = nil) -> String {
    var page = Page(width: width)
    page.line(spec.summary.prefix(1).uppercased() + spec.summary.dropFirst() + ".")
    page.section("Usage: \(usage(of: spec))")
    for paragraph in spec.details { page.section(paragraph) }
    page.add(HelpSection.all(of: spec))
    return page.text
  }

  /// The page of one topic.
  static func of(_ topic: HelpTopic, width: Int? = nil) -> String {
    var page = Page(width: width)
    page.line(topic.introduction)
    page.add(topic.sections())
    if let closing = topic.closing { page.section(closing) }
    return page.text
  }

  /// The usage of the command, on one line.
  static func usage(of spec: CommandSpec) -> String {
    let words = spec.arguments.filter { $0.kind != .commandLine }.map(\.usage)
    let last = spec.arguments.filter { $0.kind == .commandLine }.map(\.usage)
    let needed = spec.allOptions.filter { $0.need != nil }.map(\.longUsage)
    let options = needed + (spec.allOptions.count > needed.count ? ["[options]"] : [])
    return (["cbctl", spec.name] + words + options + last).joined(separator: " ")
  }

  /// Lines of help, wrapped at 80 columns or at the terminal's width; lists have two columns.
  private struct Page {
    private let width: Int
    private let labelWidth: Int
    private(set) var text = ""

    init(width: Int?) {
      self.width = max(20, min(width ?? HelpPage.width, HelpPage.width))
      labelWidth = self.width < HelpPage.narrow ? 6 : 26
    }

    mutating func line(_ line: String) {
      for part in TextWrap.lines(line, width: width) { text += part + "\n" }
    }

    mutating func section(_ line: String) {
      text += "\n"
      self.line(line)
    }

    mutating func add(_ sections: [HelpSection]) {
      for section in sections {
        self.section(section.title + ":")
        for row in section.rows { self.row(row.label, row.summary) }
        for example in section.examples { self.example(example) }
      }
    }

    private mutating func row(_ label: String, _ summary: String) {
      let lines = TextWrap.lines(summary, width: width - labelWidth)
      let head = "  " + label
      let isShort = head.count + 2 <= labelWidth
      if !isShort {
        for part in TextWrap.hanging(label, after: "  ", width: width) { text += part + "\n" }
      }
      for (index, line) in lines.enumerated() {
        let left = isShort && index == 0 ? head : ""
        text += left + String(repeating: " ", count: labelWidth - left.count) + line + "\n"
      }
    }

    /// Adds an example, whose line is not broken, so that it can be copied.
    private mutating func example(_ example: Example) {
      text += "  \(example.line)\n"
      for line in TextWrap.lines(example.purpose, width: width - 6) {
        text += "      \(line)\n"
      }
    }
  }
}

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
    spec.exitCodes.map { code in
      let meaning = spec.meanings.first { $0.key == code }?.value
      return Row(String(code.rawValue), meaning ?? code.summary)
    }
  }

  static func rows(of codes: [ExitCode]) -> [Row] {
    codes.map { Row(String($0.rawValue), $0.summary) }
  }
}

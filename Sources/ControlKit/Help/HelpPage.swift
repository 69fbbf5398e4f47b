/// Renders the table of commands as pages of help.
enum HelpPage {
  private static let labelWidth = 26
  static let width = 80

  /// The page of `cbctl --help`.
  static func overview() -> String {
    var page = Page()
    page.line("Inspect and steer the circuit breakers that the processes of this host share.")
    page.section("Usage: cbctl [options] COMMAND ...")
    page.section("Commands:")
    for spec in CommandSpec.all { page.row(spec.name, spec.summary) }
    page.section("Options, before or after the command:")
    for option in GlobalOptions.specs { page.row(option.usage, option.summary) }
    page.section("Help topics:")
    for topic in HelpTopic.all { page.row("help \(topic.name)", topic.summary) }
    page.section("Run 'cbctl COMMAND --help' for everything about one command.")
    return page.text
  }

  /// The page of one command.
  static func of(_ spec: CommandSpec) -> String {
    var page = Page()
    page.line(spec.summary.prefix(1).uppercased() + spec.summary.dropFirst() + ".")
    page.section("Usage: \(usage(of: spec))")
    for paragraph in spec.details { page.section(paragraph) }
    if !spec.arguments.isEmpty {
      page.section("Arguments:")
      for argument in spec.arguments { page.row(argument.label, argument.summary) }
    }
    if !spec.options.isEmpty {
      page.section("Options:")
      for option in spec.options { page.row(option.usage, option.summary) }
    }
    if spec.takesPolicy {
      page.section("Policy, which this caller declares for every process:")
      for option in OptionSpec.policy { page.row(option.usage, option.summary) }
    }
    page.section("Options of every command:")
    for option in GlobalOptions.specs { page.row(option.usage, option.summary) }
    if !spec.examples.isEmpty {
      page.section("Examples:")
      for example in spec.examples { page.example(example) }
    }
    page.section("Exit codes:")
    for code in spec.exitCodes { page.row(String(code.rawValue), code.summary) }
    return page.text
  }

  /// How the command is written, on one line.
  static func usage(of spec: CommandSpec) -> String {
    let hasOptions = !spec.allOptions.isEmpty
    let words = spec.arguments.filter { $0.kind != .commandLine }.map(\.usage)
    let last = spec.arguments.filter { $0.kind == .commandLine }.map(\.usage)
    let all = ["cbctl", spec.name] + words + (hasOptions ? ["[options]"] : []) + last
    return all.joined(separator: " ")
  }

  /// Lines of help, wrapped at 80 columns, in two columns where they list something.
  struct Page {
    private(set) var text = ""

    mutating func line(_ line: String) {
      for part in HelpPage.wrap(line, HelpPage.width) { text += part + "\n" }
    }

    mutating func section(_ line: String) {
      text += "\n"
      self.line(line)
    }

    mutating func row(_ label: String, _ summary: String) {
      let lines = HelpPage.wrap(summary, HelpPage.width - HelpPage.labelWidth)
      let label = "  " + label
      let isShort = label.count + 2 <= HelpPage.labelWidth
      if !isShort { text += label + "\n" }
      for (index, line) in lines.enumerated() {
        let left = isShort && index == 0 ? label : ""
        text += left + String(repeating: " ", count: HelpPage.labelWidth - left.count) + line + "\n"
      }
    }

    mutating func example(_ example: Example) {
      text += "  \(example.line)\n"
      for line in HelpPage.wrap(example.purpose, HelpPage.width - 6) { text += "      \(line)\n" }
    }
  }

  static func wrap(_ text: String, _ width: Int) -> [String] {
    var lines: [String] = []
    for word in text.split(separator: " ") {
      if let last = lines.last, last.count + 1 + word.count <= width {
        lines[lines.count - 1] = last + " " + word
      } else {
        lines.append(String(word))
      }
    }
    return lines
  }
}

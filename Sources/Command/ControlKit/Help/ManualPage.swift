/// Renders the table of commands as pages for man(1), in the macros of man(7).
enum ManualPage {
  /// The page cbctl(1).
  static func overview() -> String {
    var page = Page(
      name: "cbctl", number: 1, summary: "inspect and control shared circuit breakers")
    page.synopsis(HelpPage.usage)
    page.heading("DESCRIPTION")
    page.paragraph(HelpPage.purpose)
    page.paragraph("'cbctl COMMAND --help' and cbctl-COMMAND(1) explain each command.")
    page.add(HelpSection.overview().filter { $0.title != "Help topics" })
    let codes = HelpTopic.exitCodes
    page.heading("EXIT STATUS")
    for section in codes.sections() { page.list(section) }
    if let closing = codes.closing { page.paragraph(closing) }
    page.add(HelpTopic.environment.sections())
    let commands = CommandSpec.all.map { ("cbctl-\($0.name)", 1) }
    page.seeAlso(commands + HelpTopic.all.map { ("cbctl-\($0.name)", 7) })
    return page.text
  }

  /// The page of one command, in section 1.
  static func of(_ spec: CommandSpec) -> String {
    var page = Page(name: "cbctl-\(spec.name)", number: 1, summary: spec.summary)
    page.synopsis(HelpPage.usage(of: spec))
    if !spec.details.isEmpty { page.heading("DESCRIPTION") }
    for paragraph in spec.details { page.paragraph(paragraph) }
    page.add(HelpSection.all(of: spec))
    page.seeAlso(
      [("cbctl", 1), ("cbctl-exit-codes", 7)]
        + (spec.takesPolicy || spec.name == "policy" ? [("cbctl-policy-words", 7)] : []))
    return page.text
  }

  /// The page of one topic, in section 7.
  static func of(_ topic: HelpTopic) -> String {
    var page = Page(name: "cbctl-\(topic.name)", number: 7, summary: topic.summary)
    page.heading("DESCRIPTION")
    page.paragraph(topic.introduction)
    page.add(topic.sections())
    if let closing = topic.closing {
      page.heading("NOTES")
      page.paragraph(closing)
    }
    page.seeAlso([("cbctl", 1)])
    return page.text
  }

  private struct Page {
    private(set) var text: String

    init(name: String, number: Int, summary: String) {
      text =
        ".TH \(name.uppercased()) \(number) \"\" \"cbctl \(ControlKit.version)\" "
        + "\"SharedBreaker\"\n"
        // Hyphenated options and names could be neither found nor copied.
        + ".nh\n.ad l\n"
      heading("NAME")
      text += "\(escaped(name)) \\- \(escaped(summary))\n"
    }

    mutating func heading(_ heading: String) { text += ".SH \"\(escaped(heading))\"\n" }

    mutating func synopsis(_ usage: String) {
      heading("SYNOPSIS")
      text += "\\fB\(escaped(usage))\\fR\n"
    }

    mutating func paragraph(_ paragraph: String) { text += ".PP\n\(line(paragraph))" }

    mutating func add(_ sections: [HelpSection]) {
      for section in sections {
        heading(section.heading)
        list(section)
      }
    }

    mutating func list(_ section: HelpSection) {
      for row in section.rows { text += ".TP\n\\fB\(escaped(row.label))\\fR\n\(line(row.summary))" }
      for example in section.examples {
        text += ".PP\n\(line(example.purpose)).RS 4\n.nf\n\(line(example.line)).fi\n.RE\n"
      }
    }

    mutating func seeAlso(_ pages: [(name: String, number: Int)]) {
      heading("SEE ALSO")
      text += pages.map { "\\fB\(escaped($0.name))\\fR(\($0.number))" }.joined(separator: ",\n")
      text += "\n"
    }

    /// Text at the beginning of a line, where a dot or a quote would be a request.
    private func line(_ text: String) -> String {
      (text.first.map { ".'".contains($0) } == true ? "\\&" : "") + escaped(text) + "\n"
    }

    /// Escaped text: a plain dash may be broken and becomes a hyphen, which cannot be copied.
    private func escaped(_ text: String) -> String {
      text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("'", with: "\\(aq")
        .replacing("^", with: "\\(ha").replacing("~", with: "\\(ti").replacing("`", with: "\\(ga")
    }
  }
}

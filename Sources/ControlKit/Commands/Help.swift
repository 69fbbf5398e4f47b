extension CommandSpec {
  static let help = CommandSpec(
    name: "help",
    summary: "explain a command or a topic",
    arguments: [
      ArgumentSpec(
        label: "TOPIC", kind: .topic, count: .optional,
        summary: "a command, or one of exit-codes, policy-words, environment")
    ],
    options: [OptionSpec(name: "man", summary: "print a page for man")],
    examples: [
      Example("cbctl help exit-codes", "explain the exit codes"),
      Example("cbctl help --man run | man -l -", "read the manual page of run"),
    ],
    exitCodes: [.done, .usage]
  ) { context, parsed throws(ControlError) in
    let isManual = parsed.has("man")
    guard let topic = parsed.text("TOPIC") else {
      context.print(isManual ? ManualPage.overview() : HelpPage.overview())
      return .done
    }
    if let spec = CommandSpec.all.first(where: { $0.name == topic }) {
      context.print(isManual ? ManualPage.of(spec) : HelpPage.of(spec))
    } else if let topic = HelpTopic.named(topic) {
      context.print(isManual ? ManualPage.of(topic) : HelpPage.of(topic))
    } else {
      let known = CommandSpec.all.map(\.name) + HelpTopic.all.map(\.name)
      let meant = Suggestion.nearest(to: topic, among: known).map { "did you mean '\($0)'?" }
      throw ControlError(
        .usage, "no help on \(VisibleText.quoted(topic))", "it is neither a command nor a topic",
        meant ?? "run 'cbctl --help'")
    }
    return .done
  }
}

extension CommandSpec {
  static let help = CommandSpec(
    name: "help",
    summary: "explain a command or a topic",
    arguments: [
      ArgumentSpec(
        label: "TOPIC", kind: .topic, count: .optional,
        summary: "a command, or one of exit-codes, policy-words, environment")
    ],
    examples: [Example("cbctl help exit-codes", "what the exit codes mean")],
    exitCodes: [.done, .usage]
  ) { session, parsed throws(ControlError) in
    guard let topic = parsed.text("TOPIC") else {
      session.print(HelpPage.overview())
      return .done
    }
    if let spec = CommandSpec.named(topic) {
      session.print(HelpPage.of(spec))
    } else if let topic = HelpTopic.named(topic) {
      session.print(topic.page())
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

import SharedBreaker

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
    let width = context.console.width
    guard let topic = parsed.text("TOPIC") else {
      context.print(isManual ? ManualPage.overview() : HelpPage.overview(width: width))
      return .done
    }
    if let spec = CommandSpec.all.first(where: { $0.name == topic }) {
      context.print(isManual ? ManualPage.of(spec) : HelpPage.of(spec, width: width))
    } else if let topic = HelpTopic.named(topic) {
      context.print(isManual ? ManualPage.of(topic) : HelpPage.of(topic, width: width))
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

/// A page of help that belongs to no single command.
struct HelpTopic: Sendable {
  var name: String
  var summary: String
  var introduction: String
  var sections: @Sendable () -> [HelpSection]

  /// Text after the lists.
  var closing: String?

  static let all = [exitCodes, policyWords, environment]

  static func named(_ name: String) -> HelpTopic? { all.first { $0.name == name } }

  static let exitCodes = HelpTopic(
    name: "exit-codes", summary: "what the exit codes mean",
    introduction: "The codes that cbctl exits with.",
    sections: {
      let signal = HelpSection.Row(
        "128+N", "run: the command was killed by signal N, and cbctl ends the same way")
      return [
        HelpSection(
          "Every command", heading: "EVERY COMMAND",
          rows: HelpSection.rows(of: ExitCode.allCases.filter { !$0.isOfRunAlone })),
        HelpSection(
          "run alone", heading: "RUN ALONE",
          rows: HelpSection.rows(of: ExitCode.allCases.filter(\.isOfRunAlone)) + [signal]),
      ]
    },
    closing:
      "run exits with the code of its command, which may be any number, even 64, 66, 69, 75, 124, "
      + "126 or 127. Standard error tells them apart. If the code is cbctl's own, a line there "
      + "begins with 'cbctl:' and says why. For a rejected call, with code 75, --json prints a "
      + "document on standard output instead, and --quiet prints nothing. If the code is the "
      + "command's, cbctl prints nothing except a warning that the store or a probe's lease was "
      + "lost, or a message about a retry.")

  static let policyWords = HelpTopic(
    name: "policy-words", summary: "the words of a policy",
    introduction:
      "A policy says when a breaker opens, how long it stays open, and when it closes again. Its "
      + "words are options of run and acquire, and keys of policy --set, policy --unset and JSON. "
      + "An operator's values take precedence over the code's until they are unset.",
    sections: {
      [
        HelpSection(
          "Words", heading: "WORDS",
          rows: OptionSpec.policyWords.map { .init(String($0.usage.dropFirst(2)), $0.summary) }),
        HelpSection(
          "Values", heading: "VALUES",
          rows: [
            .init("N", "a whole number such as 5"),
            .init("D", "a time such as 250ms, 30s, 5m, 1h30m or 1d"),
            .init("P", "a rate such as 50%"),
            .init("X", "a factor such as 1.5"),
            .init("none", "removes a condition or a limit"),
          ]),
      ]
    })

  static let environment = HelpTopic(
    name: "environment", summary: "the environment variables that cbctl reads",
    introduction: "The environment variables that cbctl reads.",
    sections: {
      [
        HelpSection(
          "Variables", heading: "ENVIRONMENT",
          rows: [
            .init("SHARED_BREAKER_STORE", "the store's file, unless --store is given"),
            .init(
              "XDG_STATE_HOME",
              "if it is a full path, a user's store is in its directory shared-breaker"),
            .init(
              "HOME",
              "otherwise, a user's store is in its directory .local/state/shared-breaker; without "
                + "HOME, cbctl asks the system for the user's home directory"),
            .init("NO_COLOR", "if it is set and not empty, print without colours"),
            .init("TERM", "if it is dumb, print without colours, and watch prints lines"),
            .init("PATH", "where run looks for its command"),
            .init(
              "SUDO_USER",
              "the user whom the history names as a claim, beside the real user, if the kernel does "
                + "not know who has logged in"),
          ]),
        HelpSection(
          "The store's file is the first of these that applies", heading: "FILES",
          rows: [
            .init("--store PATH", "the option"),
            .init("$SHARED_BREAKER_STORE", "if it is not empty"),
            .init("root", "/var/lib/shared-breaker/breakers.db"),
            .init("other users", "$XDG_STATE_HOME/shared-breaker/breakers.db"),
            .init("", "~/.local/state/shared-breaker/breakers.db"),
          ]),
      ]
    })
}

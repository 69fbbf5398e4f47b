import SharedBreaker

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
    introduction: "What cbctl ends with.",
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
      "run passes on the code of the command that it ran, which may be any number: also 64, 66, 69, "
      + "75, 124, 126 or 127. Standard error tells them apart. Where a code is cbctl's own, a line "
      + "there begins with 'cbctl:' and says why: with 75 that the call was rejected (a "
      + "document on standard output instead with --json, and nothing with --quiet). Where it is "
      + "the command's, cbctl says nothing, but for a warning that the store or a probe's lease "
      + "was lost, or word of another attempt.")

  static let policyWords = HelpTopic(
    name: "policy-words", summary: "the words of a policy",
    introduction:
      "When a breaker opens, how long it stays open, and what lets it close again. The same words "
      + "are options of run and acquire, the keys of policy --set and --unset, and the keys of "
      + "JSON. An operator's values win over the code's until they are unset.",
    sections: {
      [
        HelpSection(
          "Words", heading: "WORDS",
          rows: OptionSpec.policyWords.map { .init(String($0.usage.dropFirst(2)), $0.summary) }),
        HelpSection(
          "Values", heading: "VALUES",
          rows: [
            .init("N", "a whole number such as 5"),
            .init("D", "a time such as 250ms, 30s, 5m, 2h or 1d"),
            .init("P", "a rate such as 50%"),
            .init("X", "a factor such as 1.5"),
            .init("none", "takes a condition or limit away"),
          ]),
      ]
    })

  static let environment = HelpTopic(
    name: "environment", summary: "the variables that are read",
    introduction: "The environment variables that cbctl reads.",
    sections: {
      [
        HelpSection(
          "Variables", heading: "ENVIRONMENT",
          rows: [
            .init("SHARED_BREAKER_STORE", "the store's file, where --store is not given"),
            .init(
              "XDG_STATE_HOME",
              "the store of a user lies in its shared-breaker, if it is a full path"),
            .init(
              "HOME",
              "else the store lies in its .local/state/shared-breaker; without HOME, in the home "
                + "directory that the system knows of the user"),
            .init("NO_COLOR", "print without colours if it is set and not empty"),
            .init("TERM", "print without colours if it is 'dumb'"),
            .init("PATH", "where run looks for its command"),
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

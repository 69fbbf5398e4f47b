import SharedBreaker

/// A page of help that belongs to no single command.
struct HelpTopic: Sendable {
  var name: String
  var summary: String
  var page: @Sendable () -> String

  static let all = [
    HelpTopic(
      name: "exit-codes", summary: "what the exit codes mean", page: { exitCodes() }),
    HelpTopic(
      name: "policy-words", summary: "the words of a policy", page: { policy() }),
    HelpTopic(
      name: "environment", summary: "the variables that are read", page: { environment() }),
  ]

  static func named(_ name: String) -> HelpTopic? { all.first { $0.name == name } }

  private static func exitCodes() -> String {
    var page = HelpPage.Page()
    page.line("What cbctl ends with.")
    page.section("Every command:")
    for code in ExitCode.allCases where !code.isOfRunAlone {
      page.row(String(code.rawValue), code.summary)
    }
    page.section("run alone:")
    for code in ExitCode.allCases where code.isOfRunAlone {
      page.row(String(code.rawValue), code.summary)
    }
    page.row("128+N", "run: the command was killed by signal N, and cbctl ends the same way")
    page.section(
      "run passes on the code of the command that it ran, which may be any number: also 64, 66, 69, "
        + "75, 124, 126 or 127. Standard error tells them apart. Where a code is cbctl's own, a line "
        + "there begins with 'cbctl:' and says why: with 75 that the call was rejected (a "
        + "document on standard output instead with --json, and nothing with --quiet). Where it is "
        + "the command's, cbctl says nothing, but for a warning that the store or a probe's lease "
        + "was lost, or word of another attempt.")
    return page.text
  }

  private static func policy() -> String {
    var page = HelpPage.Page()
    page.line(
      "When a breaker opens, how long it stays open, and what lets it close again. The same words "
        + "are options of run and acquire, the keys of policy --set and --unset, and the keys of "
        + "JSON. An operator's values win over the code's until they are unset.")
    page.section("Words:")
    for option in OptionSpec.policy {
      page.row(String(option.usage.dropFirst(2)), option.summary)
    }
    page.section("Values:")
    page.row("N", "a whole number such as 5")
    page.row("D", "a time such as 250ms, 30s, 5m, 2h or 1d")
    page.row("P", "a rate such as 50%")
    page.row("X", "a factor such as 1.5")
    page.row("none", "takes a condition or limit away")
    return page.text
  }

  private static func environment() -> String {
    var page = HelpPage.Page()
    page.line("The environment variables that cbctl reads.")
    page.section("Variables:")
    page.row("SHARED_BREAKER_STORE", "the store's file, where --store is not given")
    page.row(
      "XDG_STATE_HOME", "the store of a user lies in its shared-breaker, if it is a full path")
    page.row(
      "HOME",
      "else the store lies in its .local/state/shared-breaker; without HOME, in the home directory "
        + "that the system knows of the user")
    page.row("NO_COLOR", "print without colours if it is set and not empty")
    page.row("TERM", "print without colours if it is 'dumb'")
    page.row("PATH", "where run looks for its command")
    page.section("The store's file is the first of these that applies:")
    page.row("--store PATH", "the option")
    page.row("$SHARED_BREAKER_STORE", "if it is not empty")
    page.row("root", "/var/lib/shared-breaker/breakers.db")
    page.row("other users", "$XDG_STATE_HOME/shared-breaker/breakers.db")
    page.row("", "~/.local/state/shared-breaker/breakers.db")
    return page.text
  }
}

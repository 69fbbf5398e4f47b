import Glibc

extension CommandContext {
  /// Asks for confirmation at a terminal; without a terminal, `--yes` is required.
  ///
  /// - Parameters:
  ///   - question: What to ask.
  ///   - parsed: The command line.
  ///   - subject: What needs the confirmation; nil for the command with `--all`.
  /// - Throws: If nobody can be asked, or nobody confirms it; nothing was done then.
  func confirm(
    _ question: String, _ parsed: ParsedCommand, for subject: String? = nil
  ) throws(ControlError) {
    if parsed.has("yes") { return }
    guard let ask = console.ask else {
      throw ControlError(
        .usage, subject ?? "\(parsed.spec.name) --all", "there is no terminal to confirm it at",
        "add --yes")
    }
    guard ask("\(question) [y/N] ") else {
      throw ControlError(.failed, "nothing was done", "you did not confirm it", "answer y to do it")
    }
  }
}

extension OptionSpec {
  static let yes = OptionSpec(name: "yes", letter: "y", summary: "do not ask for confirmation")

  static let dryRun = OptionSpec(
    name: "dry-run", summary: "print what would be done, and do nothing")
}

extension Console {
  /// Asks on standard error and reads the answer from standard input, if both are a terminal.
  static func systemAsk() -> (@Sendable (String) -> Bool)? {
    guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else { return nil }
    return { question in
      _ = write(question, to: STDERR_FILENO)
      return ["y", "yes"].contains(readLine()?.lowercased())
    }
  }
}

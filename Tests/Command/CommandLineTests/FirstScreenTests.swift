import TestSupport
import Testing

/// The sessions that the README begins with, with a stand-in for `curl`.
@Suite struct FirstScreenTests {
  private let shell: GuideShell

  init() throws {
    shell = try GuideShell(
      with: ["curl"],
      that: #"echo "curl: (6) Could not resolve host: rates.invalid" >&2; exit 6"#)
  }

  /// The first two sessions of the README.
  private func sessions() throws -> [Substring] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let text = String(decoding: try Files.read("/\(root)/README.md"), as: UTF8.self)
    return text.matches(of: /\n```\n(\$ (?s).*?)\n```\n/).prefix(2).map(\.1)
  }

  /// A session as it is now: each command as it is typed, and what it prints.
  private func played(_ session: Substring) throws -> String {
    let commands = session.split(separator: "\n").filter { $0.hasPrefix("$ ") }
    let lines = commands.map { command in
      let quoted = command.replacing("'", with: #"'\''"#)
      return "code=$?; echo '\(quoted)'; (exit $code); \(command.dropFirst(2))"
    }
    return try shell.run(lines.joined(separator: "\n")).output
  }

  /// A text with a word for each time, because time passes.
  private func timeless(_ text: some StringProtocol) -> String {
    String(text).replacing(/\d+(ms|s|m)( \d+s)?/, with: "TIME")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the README begins with what two shells show`() throws {
    let sessions = try sessions()
    try #require(sessions.count == 2)
    for session in sessions {
      let played = try played(session)
      #expect(timeless(played) == timeless(session), "\(played)")
    }
  }
}

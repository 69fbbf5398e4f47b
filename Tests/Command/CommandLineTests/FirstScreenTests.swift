import TestSupport
import Testing

/// The sessions that the README begins with, with a stand-in for `curl`.
@Suite struct FirstScreenTests {
  private let directory: TemporaryDirectory

  init() throws {
    directory = try TemporaryDirectory()
    _ = try Child.run(
      "/bin/sh",
      [
        "-c",
        #"""
        cd "$1"; cat > text <<'END'
        #!/bin/sh
        echo "curl: (6) Could not resolve host: rates.invalid" >&2
        exit 6
        END
        install -m 755 text curl
        """#, "sh", directory.path,
      ])
  }

  /// The first two sessions of the README.
  private func sessions() throws -> [Substring] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let text = String(decoding: try Files.read("/\(root)/README.md"), as: UTF8.self)
    return text.matches(of: /\n```\n(\$ (?s).*?)```\n/).prefix(2).map(\.1)
  }

  /// A session as it is now: each command as it is typed, and what it prints.
  private func played(_ session: Substring) throws -> String {
    let commands = session.split(separator: "\n").filter { $0.hasPrefix("$ ") }.map {
      $0.dropFirst(2)
    }
    let programs = BuiltProducts.path(of: "cbctl").split(separator: "/").dropLast()
    let lines = commands.map { command in
      let quoted = command.replacing("'", with: #"'\''"#)
      return "code=$?; echo '$ \(quoted)'; (exit $code); \(command)"
    }
    return try Child.run(
      "/bin/sh",
      [
        "-c",
        "cd '\(directory.path)'; PATH='\(directory.path)':'/\(programs.joined(separator: "/"))':$PATH\n"
          + "SHARED_BREAKER_STORE='\(directory.store)'; export PATH SHARED_BREAKER_STORE\nexec 2>&1 </dev/null\n"
          + lines.joined(separator: "\n") + "\nexit 0",
      ])
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

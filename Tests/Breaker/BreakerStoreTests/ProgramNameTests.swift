import Testing

@testable import BreakerStore

/// The name that a program has in the history.
@Suite struct ProgramNameTests {
  private static func name(
    _ executable: String, as start: String? = nil, _ words: [String] = []
  ) -> String {
    ProgramName(
      executable: Array(executable.utf8), startedAs: Array((start ?? executable).utf8),
      words: words.map { Array($0.utf8) }
    ).text
  }

  @Test(arguments: [
    (
      "/usr/bin/python3.11", "/usr/bin/python3", "python3 worker.py --token=s",
      "worker.py (python3.11)"
    ),
    ("/usr/bin/python3.11", "/usr/bin/python3", "python3 -u -X dev /srv/a.py", "a.py (python3.11)"),
    (
      "/usr/bin/python3.11", "/usr/bin/python3", "python3 -um gunicorn app", "gunicorn (python3.11)"
    ),
    ("/usr/bin/python3.11", "/usr/bin/python3", "python3 -c import", "python3.11"),
    ("/usr/bin/python3.11", "/usr/bin/python3", "python3", "python3.11"),
    ("/usr/bin/python3.11", "/usr/bin/python3", "python3 -", "python3.11"),
    ("/usr/bin/ruby3.1", "/usr/bin/ruby", "ruby -rbundler -W0 -S puma", "puma (ruby3.1)"),
    ("/usr/bin/perl", "/usr/bin/perl", "perl -ne secret file", "perl"),
    ("/usr/bin/php8.2", "/usr/bin/php", "php -d a=b -f x.php", "x.php (php8.2)"),
    ("/usr/bin/node", "/usr/bin/node", "node --require=a --title x s.js", "node"),
    ("/usr/bin/bash", "/bin/bash", "bash --norc -euo pipefail -- a.sh", "a.sh (bash)"),
    ("/usr/bin/bash", "/bin/bash", "bash -c curl", "bash"),
    ("/usr/bin/dash", "/bin/sh", "sh -s", "dash"),
  ])
  func `the name of a script comes from the options of its interpreter`(
    executable: String, start: String, line: String, name: String
  ) {
    #expect(Self.name(executable, as: start, line.split(separator: " ").map { String($0) }) == name)
  }

  @Test func `a title that a server has written over its command line names nothing`() {
    let title = ["puma 6.0 (tcp://127.0.0.1:19292) [app]"]
    #expect(Self.name("/usr/bin/ruby3.1", as: "/usr/local/bin/puma", title) == "puma (ruby3.1)")
    #expect(Self.name("/usr/bin/ruby3.1", as: "/usr/bin/ruby", title) == "ruby3.1")
    #expect(Self.name("/usr/sbin/nginx", ["nginx: worker process"]) == "nginx")
    #expect(Self.name("/usr/bin/python3", ["gunicorn: worker [app]", "x.py"]) == "python3")
  }

  @Test func `a name that the kernel does not give is not guessed`() {
    #expect(Self.name("", as: "/opt/worker") == "worker")
    #expect(Self.name("", as: "") == "unknown")
    #expect(Self.name("/opt/worker (deleted)", as: "/opt/worker") == "worker")
    #expect(Self.name("/usr/bin/python3", as: "/dev/fd/3", ["python3", "a.py"]) == "python3")
    #expect(Self.name("/usr/bin/python3", as: "", ["python3", "a.py"]) == "python3")
    #expect(Self.name("/usr/bin/python3", ["python3", "/"]) == "python3")
    #expect(Self.name("/usr/bin/rubycon", ["rubycon", "a"]) == "rubycon")
  }

  @Test func `a name keeps to its limit`() {
    let long = String(repeating: "x", count: 300)
    #expect(Self.name("/usr/bin/python3", ["python3", long]).utf8.count == 255)
  }
}

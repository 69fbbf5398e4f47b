import Testing

@testable import ControlKit

/// Every command where its output is not a modern terminal, row by row as in the guide.
struct SurroundingsTests {
  /// Every command, and its exit code when its output is closed.
  static let commands: [([String], Int32)] = [
    (["status"], 0), (["show", "pay"], 0), (["history"], 0), (["history", "--follow"], 0),
    (["watch"], 0), (["wait", "pay", "--state", "open"], 0), (["check", "pay"], 75),
    (["policy", "pay"], 0), (["reset", "pay"], 0), (["trip", "pay"], 0),
    (["force", "pay", "observe"], 0), (["acquire", "pay"], 75),
    (["report", "cb1.1.1.1.0.0.pay", "success"], 0), (["run", "pay", "--", "true"], 75),
    (["delete", "pay", "--force"], 0), (["prune", "--idle", "1d"], 0), (["export"], 0),
    (["page"], 0), (["metrics"], 0), (["doctor"], 0), (["completion", "bash"], 0), (["init"], 0),
    (["help"], 0), (["--version"], 0),
  ]

  private func store() -> CommandBench {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1h")
    _ = bench("trip", "pay")
    return bench
  }

  @Test(arguments: commands)
  func `no command fails because of a closed pipe`(words: [String], code: Int32) {
    let recorder = Recorder()
    let answer = store().run(words, on: recorder.console(output: .closed), recorder)
    #expect(answer.code == code)
    #expect(answer.output.isEmpty)
    #expect(!answer.errors.contains("standard output"))
  }

  private static let looking = [
    ["status"], ["show", "pay"], ["history"], ["check", "pay"], ["help"],
  ]

  @Test(arguments: looking)
  func `without a terminal no line has a colour and status has its columns`(words: [String]) {
    let answer = store().run(words)
    #expect(!answer.output.contains("\u{1b}"))
    if words == ["status"] {
      let columns =
        "NAME STATE MODE SINCE RETRY-IN FAILURES RATE TRIPS LAST-FAILURE NOTE BUSY QUEUE HELD RAMP"
        + " BEGUN RETRIES"
      let head = answer.output.split(separator: "\n")[0].split(separator: " ")
      #expect(head.joined(separator: " ") == columns)
    }
  }

  @Test(arguments: looking, [["NO_COLOR": "1"], ["TERM": "dumb"], [:]])
  func `a terminal gets no colours with NO_COLOR or if it is dumb`(
    words: [String], environment: [String: String]
  ) {
    let recorder = Recorder()
    let console = recorder.console(width: 80, environment: environment)
    let output = store().run(words, on: console, recorder).output
    let isColored = environment.isEmpty && (words == ["status"] || words == ["show", "pay"])
    #expect(output.contains("\u{1b}") == isColored)
    for line in output.split(separator: "\n") { #expect(line.count <= 80 || isColored) }
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["dumb", ""])
  func `watch does not draw on a terminal that cannot be drawn on`(kind: String) throws {
    let bench = store()
    let terminal = try Terminal([
      "env", "TERM=\(kind)", Terminal.program, "--store", bench.path, "watch",
    ])
    try terminal.waitForOutput("Z  pay: open")
    _ = bench("reset", "pay")
    let seen = try terminal.waitForOutput("pay: closed (open -> closed)")
    #expect(!seen.contains("\u{1b}"))
    terminal.type("\u{3}")
    #expect(terminal.waitForEnd() == .killed(signal: 2))
  }

  @Test(.timeLimit(.minutes(60)))
  func `watch draws without colours with NO_COLOR`() throws {
    let bench = store()
    let terminal = try Terminal([
      "env", "TERM=xterm", "NO_COLOR=1", Terminal.program, "--store", bench.path, "watch",
    ])
    let seen = try terminal.waitForOutput("pay   open")
    #expect(!seen.contains("m\u{1b}[0m") && !seen.contains("\u{1b}[31m"))
    terminal.type("q")
    #expect(terminal.waitForEnd() == .exited(0))
  }
}

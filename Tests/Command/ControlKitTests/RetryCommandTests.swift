import Glibc
import SharedBreaker
import Testing

@testable import ControlKit

/// Commands that are tried again, and fallbacks that take their place.
struct RetryCommandTests {
  /// A command that writes a line each time it is run, and succeeds from the n-th time on.
  private func succeeding(at attempt: Int, in bench: CommandBench, code: Int = 3) -> [String] {
    let script = "echo x >> \"$0\"; [ $(wc -l < \"$0\") -ge \(attempt) ] || exit \(code)"
    return ["--", "sh", "-c", script, "\(bench.folder)/attempts"]
  }

  private func attempts(_ bench: CommandBench) -> Int {
    Golden.read("\(bench.folder)/attempts")?.count { $0 == "\n" } ?? 0
  }

  private let retries = ["--retries", "4", "--retry-delay", "1ms"]

  @Test func `a command that fails is tried again until it succeeds`() {
    let bench = CommandBench()
    let answer = bench.run(["run", "pay"] + retries + succeeding(at: 3, in: bench))
    #expect(answer.code == 0)
    #expect(attempts(bench) == 3)
    #expect(
      answer.errors == """
        cbctl: pay: attempt 1 of 5 failed: retrying in 1ms
        cbctl: pay: attempt 2 of 5 failed: retrying in 1ms

        """)
    #expect(bench("status", "pay", "--json").output.contains("\"failures\":2"))
  }

  @Test func `a command is not tried again once the budget of all is used up`() {
    let bench = CommandBench()
    let words = [
      "run", "pay", "--retry-budget", "20%", "--max-failures", "99", "--retries", "1",
      "--retry-delay", "0s", "--", "false",
    ]
    let first = "cbctl: pay: attempt 1 of 2 failed: retrying in 0s\n"
    for _ in 0..<10 { #expect(bench.run(words).errors == first) }
    let answer = bench.run(words)
    #expect(answer.code == 1)
    #expect(
      answer.errors == first
        + "cbctl: pay: not retried: as many calls were sent again as its retry-budget permits: try "
        + "again in 1s\n")
    #expect(
      bench("show", "pay").output.contains("21 failed, 10 sent again, 1 not sent again"))
  }

  @Test func `the last exit code is passed on when all attempts have failed`() {
    let bench = CommandBench()
    let words = ["run", "pay", "--retries", "2", "--retry-delay", "0s", "--quiet"]
    let answer = bench.run(words + succeeding(at: 9, in: bench, code: 7))
    #expect(answer.code == 7)
    #expect(attempts(bench) == 3)
    #expect(answer.errors.isEmpty)
  }

  @Test(arguments: [["--retries", "0"], ["--retries", "0", "--retry-delay", "1s"]])
  func `a command with no retries is run once`(options: [String]) {
    let bench = CommandBench()
    let answer = bench.run(["run", "pay"] + options + succeeding(at: 9, in: bench))
    #expect(answer.code == 3)
    #expect(attempts(bench) == 1)
    #expect(answer.errors.isEmpty)
  }

  @Test func `a command is not retried once the breaker is open`() {
    let bench = CommandBench()
    let words = ["run", "pay", "--max-failures", "2"] + retries + succeeding(at: 9, in: bench)
    let answer = bench.run(words)
    #expect(answer.code == 3)
    #expect(attempts(bench) == 2)
    #expect(answer.errors.hasSuffix("cbctl: pay: not retried: open, retry in 30s\n"))
  }

  @Test(arguments: [["--ignore-exit", "3"], ["--permanent-exit", "3"]])
  func `an ignored or a permanent exit code ends the attempts`(option: [String]) {
    let bench = CommandBench()
    let answer = bench.run(["run", "pay"] + retries + option + succeeding(at: 9, in: bench))
    #expect(answer.code == 3)
    #expect(attempts(bench) == 1)
  }

  @Test(arguments: [nil, "exit 9"])
  func `a store that fails before a retry leaves the code of the attempt, or the fallback's`(
    fallback: String?
  ) {
    let bench = CommandBench()
    let recorder = Recorder()
    var console = recorder.console()
    let write = console.errorOutput
    console.errorOutput = { text in
      // The next look at the file is due.
      if text.contains("retrying in") { bench.advance(by: 2_000) }
      return write(text)
    }
    let words = ["run", "pay", "--on-store-failure", "fail"] + retries
    // The command replaces the store by something that is none.
    let command = ["--", "sh", "-c", "rm -f '\(bench.path)'*; mkdir '\(bench.path)'; exit 7"]
    let answer = bench.run(
      words + (fallback.map { ["--fallback", $0] } ?? []) + command, on: console, recorder)
    #expect(answer.code == (fallback == nil ? 7 : 9), "\(answer)")
    #expect(answer.errors.contains("not retried: "))
    unsafe rmdir(bench.path)
  }

  @Test(
    arguments: [
      ("--ignore-exit 3 --hold-exit 2-4=1s", "exit code 3 of --ignore-exit and --hold-exit"),
      ("--ignore-exit 3 --permanent-exit 3", "exit code 3 of --ignore-exit and --permanent-exit"),
      ("--timeout 0s", "--timeout 0"),
    ])
  func `options that leave no meaning or no time are refused`(options: String, why: String) {
    let bench = CommandBench()
    let words = options.split(separator: " ").map(String.init)
    let answer = bench.run(["run", "pay"] + words + succeeding(at: 1, in: bench))
    #expect(answer.code == 64 && answer.errors.contains(why), "\(answer)")
    #expect(bench.files.isEmpty)
  }

  @Test func `every attempt has the whole timeout`() {
    let bench = CommandBench()
    let words = ["run", "pay", "--retries", "1", "--retry-delay", "1ms", "--timeout", "20ms"]
    let answer = bench.run(words + ["--", "sleep", "60"])
    #expect(answer.code == 124)
    #expect(answer.errors.split(separator: "\n").count { $0.contains("stopped after 20ms") } == 2)
    #expect(bench("status", "pay", "--json").output.contains("\"failures\":2"))
  }

  @Test func `a complaint is printed once even if the next attempt is rejected`() {
    let bench = CommandBench()
    let recorder = Recorder()
    var console = recorder.console()
    let write = console.errorOutput
    console.errorOutput = { text in
      // Another process opens the breaker between the attempts.
      if text.contains("retrying in") { _ = bench("trip", "pay") }
      return write(text)
    }
    let words = ["run", "pay", "--retries", "1", "--retry-delay", "0s", "--timeout", "20ms"]
    let answer = bench.run(words + ["--", "sleep", "60"], on: console, recorder)
    #expect(answer.code == 124)
    #expect(answer.errors.contains("not retried"))
    #expect(answer.errors.ranges(of: "stopped after 20ms").count == 1)
  }

  @Test(arguments: [
    ["--retry-delay", "1s"], ["--retries", "-1"], ["--retries", "2", "--retry-backoff", "0.5"],
    ["--retries", "2", "--retry-jitter", "101%"], ["--retries", "2", "--retry-backoff", "x"],
    ["--retries", "2", "--retry-jitter", "1"],
  ])
  func `retry options that make no sense are refused before anything runs`(options: [String]) {
    let bench = CommandBench()
    let answer = bench.run(["run", "pay"] + options + succeeding(at: 1, in: bench))
    #expect(answer.code == 64)
    #expect(attempts(bench) == 0)
  }

  private func policy(_ options: String...) throws -> RetryPolicy {
    let words = ["run", "pay"] + options + ["--", "true"]
    guard case .command(let parsed) = try ArgumentParser.parse(words.map { Array($0.utf8) })
    else { return .never }
    return try RetryPolicy.given(by: parsed)
  }

  @Test func `the waits between attempts grow up to the longest and vary by the jitter`() throws {
    let growing = try policy(
      "--retries=9", "--retry-delay=2s", "--retry-backoff=3", "--retry-max-delay=12s",
      "--retry-jitter=50%")
    let middling = (1...3).map { growing.delay(after: $0, random: 0.5) }
    // The longest waits vary too.
    #expect(middling == [.seconds(2), .seconds(6), .seconds(8)])
    #expect(growing.delay(after: 1, random: 0) == .seconds(1))
    #expect(growing.delay(after: 2, random: 0) == .seconds(3))
    #expect(growing.delay(after: 3, random: 0) == .seconds(4))
    #expect(growing.delay(after: 3, random: 1) == .seconds(12))
    let plain = try policy("--retries=2")
    #expect(plain.attempts == 3)
    #expect((1...2).map { plain.delay(after: $0, random: 0.9) } == [.seconds(1), .seconds(1)])
    // No default shortens a wait that the command line asks for.
    let long = try policy("--retries=1", "--retry-delay=2h")
    #expect(long.delay(after: 1, random: 0) == .seconds(7_200))
  }

  @Test func `a fallback takes the place of a rejected command`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "max-failures=1")
    _ = bench("trip", "pay")
    let words = ["run", "pay", "--fallback", "echo old > '\(bench.folder)/attempts'; exit 4", "--"]
    let answer = bench.run(words + ["false"])
    #expect(answer.code == 4)
    #expect(Golden.read("\(bench.folder)/attempts") == "old\n")
    #expect(answer.errors.hasPrefix("cbctl: pay: rejected: it is open: try again in 30s: running"))
    #expect(bench.run(["--quiet"] + words + ["false"]).errors.isEmpty)
    // Standard output belongs to the fallback.
    #expect(bench.run(["--json"] + words + ["false"]).output.isEmpty)
  }

  @Test(
    arguments: [
      (["sh", "-c", "exit 3"], 0, true), (["sh", "-c", "exit 5"], 5, false), (["true"], 0, false),
      (["/nonexistent"], 127, false), (["sh", "-c", "kill -9 $$"], 0, true),
      (["sleep", "60"], 0, true),
    ] as [([String], Int32, Bool)])
  func `a fallback takes the place of a failure and of no other outcome`(
    command: [String], code: Int32, runs: Bool
  ) {
    let bench = CommandBench()
    let timeout = command == ["sleep", "60"] ? "20ms" : "1m"
    let options = ["--ignore-exit", "5", "--timeout", timeout]
    let fallback = ["--fallback", ": > '\(bench.folder)/attempts'"]
    #expect(bench.run(["run", "pay"] + options + fallback + ["--"] + command).code == code)
    #expect(bench.files.contains("attempts") == runs)
  }

  @Test func `a lost store is not a rejection and runs no fallback`() {
    let recorder = Recorder()
    let words = [
      "--store", "/proc/no-such/breakers.db", "run", "pay", "--on-store-failure", "fail",
      "--fallback", "exit 4", "--", "true",
    ]
    #expect(ControlKit.run(arguments: words, console: recorder.console()).code == 69)
  }

  @Test func `a command that takes long counts as slow`() {
    let bench = CommandBench()
    let words = ["run", "pay", "--slow-rate", "100%", "--last", "2", "--min-calls", "2"]
    for _ in 0..<2 { #expect(bench.run(words + ["--slow-after", "1h", "--", "true"]).code == 0) }
    #expect(bench("check", "pay").code == 0)
    for _ in 0..<2 { #expect(bench.run(words + ["--slow-after", "1us", "--", "true"]).code == 0) }
    #expect(bench("check", "pay").code == 75)
  }

  @Test func `a command that was told to wait is tried again at the end of the hold`() {
    let bench = CommandBench()
    let recorder = Recorder()
    var console = recorder.console()
    let write = console.errorOutput
    console.errorOutput = { text in
      if text.contains("attempt 1 of 5") { bench.advance(by: 60) }
      if text.contains("left alone") { bench.advance(by: 60) }
      return write(text)
    }
    let words = ["run", "pay", "--hold-exit", "3=100ms"] + retries + succeeding(at: 2, in: bench)
    let answer = bench.run(words, on: console, recorder)
    #expect(answer.code == 0)
    #expect(attempts(bench) == 2)
    #expect(
      answer.errors == """
        cbctl: pay: held for 100ms (exit code 3)
        cbctl: pay: attempt 1 of 5 was told to wait: retrying in 100ms
        cbctl: pay: waits on: the resource has asked to be left alone: try again in 40ms

        """)
    #expect(bench("status", "pay", "--json").output.contains(#""failures":0"#))
  }

  @Test func `a command is not tried again if its hold is longer than the longest wait`() {
    let bench = CommandBench()
    let words = ["run", "pay", "--hold-exit", "3=2m"] + retries + succeeding(at: 2, in: bench)
    let answer = bench.run(words)
    #expect(answer.code == 3)
    #expect(attempts(bench) == 1)
    #expect(
      answer.errors == """
        cbctl: pay: held for 2m (exit code 3)
        cbctl: pay: not retried: closed, held for 2m (exit code 3)

        """)
  }
}

import ControlKit
import Testing

/// Commands that are run behind a breaker of a real store.
struct RunCommandTests {
  @Test func `failures open the breaker and the command is no longer run`() {
    let bench = CommandBench()
    for _ in 0..<2 {
      #expect(bench("run", "pay", "--max-failures=2", "--", "sh", "-c", "exit 3").code == 3)
    }
    let rejected = bench("run", "pay", "--", "sh", "-c", "exit 3")
    #expect(rejected.code == 75)
    #expect(rejected.errors.contains("30s"))
    #expect(bench("show", "pay").output.contains("exit code 3"))
    bench.advance(by: 30_000)
    #expect(bench("run", "pay", "--", "true").code == 0)
    #expect(bench("check", "pay").output == "permitted: closed\n")
  }

  @Test(
    arguments: [
      (["--ignore-exit", "3", "--", "sh", "-c", "exit 3"], 3, "permitted: closed\n"),
      (
        ["--ignore-exit", "3", "--ignore-exit", "4-5", "--", "sh", "-c", "exit 3"], 3,
        "permitted: closed\n"
      ),
      (["--", "sh", "-c", "exit 3"], 3, "rejected: open, retry in 30s\n"),
      (["--", "sh", "-c", "kill -9 $$"], 137, "rejected: open, retry in 30s\n"),
      (["--", "/nonexistent"], 127, "permitted: closed\n"),
      (["--", "/etc/passwd"], 126, "permitted: closed\n"),
      (["--timeout", "20ms", "--", "sleep", "60"], 124, "rejected: open, retry in 30s\n"),
      (["--", "true"], 0, "permitted: closed\n"),
    ] as [([String], Int32, String)])
  func `the exit code of a command is passed on and judged`(
    words: [String], code: Int32, check: String
  ) {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "max-failures=1")
    #expect(bench.run(["run", "pay"] + words).code == code)
    #expect(bench("check", "pay").output == check)
  }

  @Test func `a preset declares the library's policy, which single words override`() {
    let bench = CommandBench()
    #expect(bench("run", "job", "--preset", "scheduled-job", "--", "true").code == 0)
    let policy = bench("policy", "job").output
    #expect(policy.contains("open-for") && policy.contains("15m"), "\(policy)")
    let words = ["run", "job", "--preset", "scheduled-job", "--open-for", "2h", "--", "true"]
    #expect(bench.run(words).code == 0)
    #expect(bench("policy", "job").output.contains("2h"))
    let wrong = bench("run", "job", "--preset", "jobs", "--", "true")
    #expect(wrong.code == 64)
    #expect(wrong.errors.contains("scheduled-job"), "\(wrong.errors)")
  }

  @Test func `a permanent exit code opens the breaker at once`() {
    let bench = CommandBench()
    let codes = ["--permanent-exit", "4", "--permanent-exit", "5"]
    #expect(bench.run(["run", "pay"] + codes + ["--", "sh", "-c", "exit 4"]).code == 4)
    #expect(bench("check", "pay").code == 75)
  }

  @Test func `a probe that exceeds its time is reported and keeps its exit code`() {
    // The command takes real time, so the breaker needs the real clock.
    let bench = CommandBench()
    func run(_ words: String...) -> Answer {
      let recorder = Recorder()
      let ending = ControlKit.run(
        arguments: ["--store", bench.path] + words, console: recorder.console())
      return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
    }
    _ = run("policy", "pay", "--set", "probe-timeout=10ms", "--set", "open-for=10ms")
    _ = run("trip", "pay")
    while run("check", "pay").code == 75 {}
    let answer = run("run", "pay", "--", "sh", "-c", "sleep 0.1; exit 6")
    #expect(answer.code == 6)
    #expect(answer.errors.contains("report refused"))
  }

  @Test func `with a broken store the command runs and one line warns`() {
    let line = ["--store", "/proc/no-such/breakers.db", "run", "pay"]
    let recorder = Recorder()
    let words = ["--", "sh", "-c", "exit 5"]
    #expect(ControlKit.run(arguments: line + words, console: recorder.console()).code == 5)
    #expect(recorder.errors.contains("the command runs without its breaker"))
    #expect(recorder.errors.split(separator: "\n").count == 1)

    let strict = Recorder()
    let code = ControlKit.run(
      arguments: line + ["--on-store-failure", "fail"] + words, console: strict.console()
    ).code
    #expect(code == 69)
    #expect(strict.errors.split(separator: "\n").count == 1)
  }
}

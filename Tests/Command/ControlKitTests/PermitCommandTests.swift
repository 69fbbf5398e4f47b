import ControlKit
import Glibc
import Testing

/// Permits that are asked for, refused, and reported.
struct PermitCommandTests {
  @Test func `a permit is acquired and its outcome is reported`() {
    let bench = CommandBench()
    let token = bench("acquire", "pay", "--max-failures", "1", "--open-for", "20s")
    #expect(token.code == 0)
    let word = String(token.output.dropLast())
    #expect(bench("check", "pay") == Answer(code: 0, output: "permitted: closed\n", errors: ""))

    #expect(bench("report", word, "failure", "--error", "HTTP 503").code == 0)
    let rejected = bench("acquire", "pay")
    #expect(rejected.code == 75)
    #expect(rejected.output.isEmpty)
    #expect(rejected.errors.contains("20s"))
    bench.advance(by: 12_500)
    let json = bench("acquire", "pay", "--json")
    #expect(
      json.output
        == #"{"permitted":false,"state":"open","retry_after_ms":7500,"cause":"open"}"# + "\n")
    #expect(json.code == 75)
    let run = bench("run", "pay", "--json", "--", "true")
    #expect(run == json)
    let check = bench("check", "pay", "--json")
    #expect(
      check.output == json.output.dropLast(2)
        + #","open_reason":null,"hold":null,"mode":"automatic","mode_reason":null,"mode_set_by":null,"mode_set_at":null}"#
        + "\n")
    #expect(check.code == 75)
    #expect(bench("check", "pay", "--quiet") == Answer(code: 75, output: "", errors: ""))

    let late = bench("report", word, "success")
    #expect(late.code == 0)
    #expect(late.errors.contains("counted in the totals only"))
  }

  @Test func `the report of a probe that lost its lease is refused`() {
    let bench = CommandBench()
    _ = bench("acquire", "pay", "--probe-timeout", "10s")
    _ = bench("trip", "pay", "--for", "1s")
    bench.advance(by: 1_000)
    #expect(bench("check", "pay").code == 0)
    let probe = bench("acquire", "pay", "--json")
    #expect(probe.output.contains(#""kind":"probe""#))
    let word = probe.output.split(separator: "\"")[5]
    bench.advance(by: 10_000)
    let refused = bench("report", String(word), "success")
    #expect(refused.code == 1)
    #expect(
      refused.errors == "cbctl: pay: report refused: the probe's lease has ended: "
        + "its owner is gone, or it took longer than probe-timeout\n")
  }

  @Test(arguments: [Console.Writing.closed, .failed(ENOSPC)])
  func `a permit whose token cannot be printed is given back`(writing: Console.Writing) {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "max-failures=1")
    _ = bench("trip", "pay", "--for", "1s")
    bench.advance(by: 1_000)
    for words in [["acquire", "pay"], ["acquire", "pay", "--json"]] {
      let recorder = Recorder()
      let answer = bench.run(words, on: recorder.console(output: writing), recorder)
      #expect(answer.code == 1)
      #expect(answer.errors.hasPrefix("cbctl: pay: the token cannot be printed: "))
      #expect(answer.errors.split(separator: "\n").count == 1)
      #expect(bench("check", "pay").code == 0)
    }
    #expect(bench("acquire", "pay").code == 0)
    // A rejection only has its exit code to report.
    let recorder = Recorder()
    #expect(
      bench.run(["acquire", "pay", "--json"], on: recorder.console(output: writing), recorder)
        .code == 75)
  }

  @Test func `an invalid token and a missing owner process are usage errors`() {
    let bench = CommandBench()
    #expect(bench("report", "nonsense", "success").code == 64)
    #expect(bench("acquire", "pay", "--owner-pid", "2147483647").code == 64)
  }

  @Test func `a rejection comes before a missing owner process`() {
    let bench = CommandBench()
    for words in [["force", "pay", "forced_open"], ["trip", "pay"]] {
      _ = bench.run(words)
      #expect(bench("acquire", "pay", "--owner-pid", "2147483647").code == 75)
      _ = bench("force", "pay", "automatic")
    }
    #expect(bench("show", "pay", "--json").output.contains("\"rejections\":2"))
    _ = bench("reset", "pay")
    #expect(bench("acquire", "pay", "--owner-pid", "2147483647").code == 64)
  }

  @Test func `the report of a token whose breaker is gone counts nothing and gives 66`() {
    let bench = CommandBench()
    let token = bench("acquire", "ghost", "--max-failures", "1").output.dropLast()
    _ = bench("delete", "ghost")
    for outcome in ["success", "failure", "ignored"] {
      let answer = bench("report", String(token), outcome)
      #expect(answer.code == 66)
      #expect(
        answer.errors.hasPrefix("cbctl: no breaker 'ghost': it was deleted, so nothing was counted")
      )
      #expect(answer.errors.split(separator: "\n").count == 1)
    }
    #expect(bench("status", "--json").output == "{\"breakers\":[]}\n")
  }

  @Test func `the first report for a breaker that was never declared creates it`() {
    let bench = CommandBench()
    let token = bench("acquire", "new").output.dropLast()
    #expect(bench("report", String(token), "success").code == 0)
    #expect(bench("check", "new").code == 0)
  }

  @Test func `a rejection is one line with why, until when and the operator's reason`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "max-failures=1")
    _ = bench("force", "pay", "forced_open", "--for", "10m", "--reason", "moving db")
    let line = "cbctl: pay: rejected: its mode is forced_open (moving db): try again in 10m\n"
    for words in [["acquire", "pay"], ["run", "pay", "--", "true"]] {
      #expect(bench.run(words) == Answer(code: 75, output: "", errors: line))
      #expect(bench.run(["--quiet"] + words) == Answer(code: 75, output: "", errors: ""))
    }
    #expect(
      bench("check", "pay", "--json").output.contains(
        #""mode":"forced_open","mode_reason":"moving db","mode_set_by":"cbctl (pid "#))
    _ = bench("force", "pay", "automatic")
    _ = bench("trip", "pay", "--for", "5s")
    bench.advance(by: 24)
    #expect(bench("acquire", "pay").errors == "cbctl: pay: rejected: it is open: try again in 5s\n")
    bench.advance(by: 4_900)
    #expect(bench("acquire", "pay").errors.hasSuffix("it is open: try again in 76ms\n"))
  }

  @Test func `options that replace an earlier declaration are reported`() {
    let bench = CommandBench()
    func run(_ options: String...) -> Answer {
      bench.run(["run", "pay"] + options + ["--", "true"])
    }
    #expect(run("--max-failures", "3", "--open-for", "5s").errors.isEmpty)
    #expect(run("--max-failures", "3", "--open-for", "5s").errors.isEmpty)
    #expect(run().errors.isEmpty)
    #expect(
      run("--max-failures", "7").errors
        == "cbctl: pay: these options change the policy that cbctl declared before: "
        + "max-failures 3 -> 7, -open-for=5s: use 'cbctl policy' to settle it for every caller\n")
    #expect(run("--max-failures", "8", "--quiet").errors.isEmpty)
    #expect(bench("acquire", "pay", "--probes", "2").errors.contains("-max-failures=8, +probes=2"))
  }
}

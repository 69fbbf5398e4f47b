import BreakerStore
import ControlKit
import SharedBreaker
import Testing

/// Commands on a real store.
struct StoreCommandTests {
  @Test(arguments: [
    ["status"], ["status", "x"], ["show", "x"], ["history"], ["check", "x"], ["reset", "x"],
    ["reset", "--all"], ["force", "x", "automatic"], ["policy", "x"], ["delete", "x"],
    ["policy", "x", "--unset", "jitter"], ["report", "cb1.1.1.1.0.0.x", "success"],
  ])
  func `a command that needs a store ends with 69 without one and creates none`(words: [String]) {
    let bench = CommandBench()
    let answer = bench.run(words)
    #expect(answer.code == 69)
    #expect(answer.output.isEmpty)
    #expect(answer.errors == "cbctl: no store yet at \(bench.path): its first use creates it\n")
    #expect(bench.files.isEmpty)
  }

  @Test(arguments: [
    ["status", "pya"], ["show", "pya"], ["history", "pya"], ["check", "pya"], ["reset", "pya"],
    ["force", "pya", "automatic"], ["policy", "pya"], ["delete", "pay", "pya"],
    ["policy", "pya", "--unset", "jitter"], ["reset", "pay", "pya"],
  ])
  func `an unknown name gives 66 and a suggestion, and changes nothing`(words: [String]) {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m")
    let before = bench("status", "--json")
    let answer = bench.run(words)
    #expect(answer.code == 66)
    #expect(answer.errors.contains("'pya'"))
    #expect(answer.errors.contains("did you mean 'pay'?"))
    #expect(bench("status", "--json") == before)
  }

  @Test(
    arguments: [("forced_open", 75), ("forced_closed", 0), ("observe", 0)]
      as [(String, Int32)])
  func `force creates a breaker that does not exist yet`(mode: String, check: Int32) {
    let bench = CommandBench()
    let made = bench("force", "pay", mode, "--for", "2h", "--reason", "maintenance")
    #expect(made.code == 0)
    #expect(made.output == "pay: \(mode) for 2h (maintenance); state: closed\n")
    #expect(made.errors == "cbctl: pay: created, because no breaker had that name\n")
    #expect(bench("check", "pay").code == check)
    #expect(bench("history", "pay", "--json").output.contains(#""kind":"mode""#))
    #expect(bench("force", "pay", mode).errors.isEmpty)
    #expect(bench("force", "mail", mode, "--quiet") == Answer(code: 0, output: "", errors: ""))
    #expect(bench("force", "mail", "automatic").output == "mail: closed\n")
  }

  @Test func `force suggests the name that may have been meant`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m")
    #expect(bench("force", "pya", "forced_open", "--json").code == 0)
    let answer = bench("force", "pyaa", "forced_open")
    #expect(answer.code == 0)
    #expect(
      answer.errors == "cbctl: pyaa: created, because no breaker had that name: "
        + "did you mean 'pya'?\n")
  }

  @Test func `trip treats an unknown name as force does`() {
    let bench = CommandBench()
    let made = bench("trip", "pay", "--for", "1m")
    #expect(
      made
        == Answer(
          code: 0, output: "pay: open, retry in 1m\n",
          errors: "cbctl: pay: created, because no breaker had that name\n"))
    #expect(bench("trip", "pay").errors.isEmpty)
    #expect(
      bench("trip", "pya").errors
        == "cbctl: pya: created, because no breaker had that name: did you mean 'pay'?\n")
    #expect(bench("trip", "a\nb").code == 64)
  }

  @Test func `policy treats an unknown name as force does, if it sets a word`() {
    let bench = CommandBench()
    #expect(
      bench("policy", "pay", "--set", "probes=2").errors
        == "cbctl: pay: created, because no breaker had that name\n")
    #expect(bench("policy", "pay", "--set", "probes=3").errors.isEmpty)
    #expect(
      bench("policy", "pya", "--set", "probes=2").errors
        == "cbctl: pya: created, because no breaker had that name: did you mean 'pay'?\n")
    #expect(bench("policy", "pay", "--unset", "probes").errors.isEmpty)
  }

  @Test func `force with a wrong name or mode creates nothing`() {
    let bench = CommandBench()
    #expect(bench("force", "a\nb", "forced_open").code == 64)
    #expect(bench("force", "pay", "ajar").code == 64)
    #expect(bench("force", "pay", "automatic", "--for", "1h").code == 64)
    #expect(bench.files.isEmpty)
  }

  @Test func `a breaker whose open time is over is shown as due and not as rejecting`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=30s", "--set", "jitter=0%")
    _ = bench("trip", "pay")
    bench.advance(by: 20_000)
    #expect(bench("show", "pay").output.contains("\n  rejected for 20s\n"))
    bench.advance(by: 10_000 + 54 * 60_000)
    #expect(bench("show", "pay").output.contains("\n  rejected for 30s, due for 54m\n"))
    #expect(
      bench("page").output.contains(
        "rejected for 30s in 1 period, due for 54m in 1 period, "))
    // Once the breaker has changed, nothing records when its open time ended.
    _ = bench("run", "pay", "--", "true")
    #expect(bench("show", "pay").output.contains("\n  open for 54m 30s\n"))
    let page = bench("page").output
    #expect(page.contains("open for 54m 30s in 1 period") && !page.contains(": rejected for"))
  }

  @Test func `a forced mode that has run out is shown for as long as it held`() {
    let bench = CommandBench()
    _ = bench("force", "pay", "forced_open", "--for", "10m")
    bench.advance(by: 40 * 60_000)
    #expect(bench("show", "pay").output.contains("\n  rejected for 10m\n"))
  }

  @Test func `an empty store is reported on standard error`() {
    let bench = CommandBench()
    #expect(bench("init").output == "\(bench.path): the store was created\n")
    #expect(bench("init").output == "\(bench.path): the store already exists\n")
    let answer = bench("status")
    #expect(answer.code == 0)
    #expect(answer.output.isEmpty)
    #expect(answer.errors.contains("no breakers yet"))
    #expect(bench("status", "--json").output == "{\"breakers\":[]}\n")
  }

  @Test func `every change prints the new state in one line unless quiet`() {
    let bench = CommandBench()
    #expect(
      bench("policy", "pay", "--set", "open-for=1m").output
        == "pay: closed; set by an operator: open-for=1m\n")
    #expect(bench("trip", "pay").output == "pay: open, retry in 1m\n")
    #expect(bench("reset", "pay").output == "pay: closed\n")
    #expect(
      bench("force", "pay", "forced_open", "--for", "2h", "--reason", "a\nb").output
        == "pay: forced_open for 2h (a\\u{a}b); state: closed\n")
    #expect(bench("force", "pay", "observe").output == "pay: observe; state: closed\n")
    #expect(bench("force", "pay", "automatic").output == "pay: closed\n")
    #expect(
      bench("policy", "pay", "--unset", "open-for").output
        == "pay: closed; nothing set by an operator\n")
    #expect(bench("reset", "--all", "--quiet", "--yes") == Answer(code: 0, output: "", errors: ""))
    #expect(bench("trip", "pay", "--json").output.hasPrefix(#"{"breakers":[{"name":"pay""#))
    #expect(bench("delete", "pay", "--force").output == "pay: deleted\n")
    #expect(bench("history", "pay").output.contains("closed -> open"))
    let last = bench("history", "pay", "--limit", "1").output
    #expect(last.contains("  deletion  open -> deleted  cbctl (pid "))
  }

  @Test func `the policy that show prints is JSON as the library reads and writes it`() throws {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "failure-rate=12.5%", "--set", "last=20")
    let output = bench("show", "pay", "--json").output
    let policy = try BreakerPolicy(words: "failure-rate=12.5% last=20")
    #expect(output.contains("\"policy\":\(policy.json)"))
    #expect(try BreakerPolicy(json: policy.json).last == 20)
  }

  @Test func `a policy that contradicts itself changes nothing`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m")
    let answer = bench("policy", "pay", "--set", "open-max=1s")
    #expect(answer.code == 64)
    #expect(answer.errors.contains("open-max"))
    #expect(bench("policy", "pay").output.contains("open-for            1m   operator"))
    #expect(!bench("policy", "pay").output.contains("open-max"))
  }

  @Test func `all of an operator's values can be unset at once`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m", "--set", "jitter=5%")
    #expect(
      bench("policy", "pay", "--unset-all", "--set", "probes=2").output
        == "pay: closed; set by an operator: probes=2\n")
    #expect(
      bench("policy", "pay", "--unset-all").output == "pay: closed; nothing set by an operator\n")
    #expect(bench("policy", "pya", "--unset-all").code == 66)
  }

  @Test func `a name of spaces is shown in quotes`() {
    let bench = CommandBench()
    #expect(
      bench("policy", "  ", "--set", "probes=2").output
        == "'  ': closed; set by an operator: probes=2\n")
    #expect(bench("status").output.contains("'  '  closed"))
    #expect(bench("delete", "  ", "--force").output == "'  ': deleted\n")
  }

  @Test func `patterns and states choose what status lists`() {
    let bench = CommandBench()
    for name in ["pay-eu", "pay-us", "mail"] {
      _ = bench("policy", name, "--set", "open-for=1m")
    }
    _ = bench("trip", "pay-us")
    func names(_ answer: Answer) -> [Substring] {
      answer.output.split(separator: "\n").dropFirst().compactMap { $0.split(separator: " ").first }
    }
    #expect(names(bench("status")) == ["pay-us", "mail", "pay-eu"])
    #expect(names(bench("status", "pay-*")) == ["pay-us", "pay-eu"])
    #expect(names(bench("status", "mail", "*-eu")) == ["mail", "pay-eu"])
    #expect(names(bench("status", "--state", "open")) == ["pay-us"])
    let none = bench("status", "x*")
    #expect(none.code == 0)
    #expect(none.errors == "cbctl: no name matches 'x*': the store has 3 breakers\n")
    #expect(bench("status", "mail", "x*").errors == none.errors)
    #expect(
      bench("status", "--state", "half_open").errors
        == "cbctl: no matching breaker is half_open: the store has 3 breakers\n")
  }

  @Test func `modes choose what status lists`() {
    let bench = CommandBench()
    _ = bench("policy", "plain", "--set", "open-for=1m")
    for mode in ["forced_open", "forced_closed", "observe"] { _ = bench("force", mode, mode) }
    func names(_ mode: String) -> [Substring] {
      bench("status", "--mode", mode).output.split(separator: "\n").dropFirst().compactMap {
        $0.split(separator: " ").first
      }
    }
    for mode in ["forced_open", "forced_closed", "observe"] {
      #expect(names(mode) == [mode[...]])
    }
    #expect(names("automatic") == ["plain"])
    #expect(Set(names("set")) == ["forced_open", "forced_closed", "observe"])
    #expect(bench("status", "--mode", "set", "--json").output.ranges(of: "\"name\":").count == 3)
    #expect(
      bench("status", "plain", "--mode", "set").errors
        == "cbctl: no matching breaker is forced or observed: the store has 4 breakers\n")
    #expect(
      bench("status", "--state", "open", "--mode", "observe").errors
        == "cbctl: no matching breaker is open and observe: the store has 4 breakers\n")
    #expect(bench("status", "--mode", "forced").code == 64)
  }

  @Test func `history is limited by time and by number`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m")
    bench.advance(by: 60_000)
    _ = bench("trip", "pay")
    _ = bench("reset", "pay")
    func count(_ answer: Answer) -> Int { answer.output.split(separator: "\n").count }
    #expect(count(bench("history")) == 3)
    #expect(count(bench("history", "--since", "30s")) == 2)
    #expect(count(bench("history", "--limit", "1", "--json")) == 1)
    #expect(bench("history", "--limit", "1").output.contains("reset"))
  }

  @Test func `a history without entries says of which time it has none`() {
    let bench = CommandBench()
    _ = bench("run", "pay", "--", "true")
    #expect(bench("history", "pay").errors == "cbctl: no history: no change is on record\n")
    _ = bench("trip", "pay")
    bench.advance(by: 60_000)
    #expect(
      bench("history", "pay", "--since", "30s").errors
        == "cbctl: no history: no change in that time is on record\n")
  }

  @Test(arguments: [
    ([], 10), (["--limit", "3"], 3), (["--since", "1h"], 12),
    (["--since", "1h", "--limit", "4"], 4), (["--json"], 10), (["pay", "--limit", "100"], 12),
  ])
  func `a followed history begins with its last entries`(words: [String], count: Int) {
    let bench = CommandBench()
    for number in 1...12 { _ = bench("policy", "pay", "--set", "probes=\(number)") }
    let recorder = Recorder()
    let printed = Guarded("")
    var console = recorder.console()
    // The reader goes as soon as it has the beginning.
    console.output = { text in
      printed.withLock { $0 += text }
      return .closed
    }
    let answer = bench.run(["history", "--follow"] + words, on: console, recorder)
    #expect(answer == Answer(code: 0, output: "", errors: ""))
    let lines = printed.withLock { $0 }.split(separator: "\n")
    #expect(lines.count == count)
    #expect(lines.last?.contains("12") == true)
  }

  @Test func `a reader that has gone is not a failure, but a full disk is`() {
    let recorder = Recorder()
    func help(_ writing: Console.Writing) -> Ending {
      ControlKit.run(arguments: ["--help"], console: recorder.console(output: writing))
    }
    #expect(help(.closed) == .code(0))
    #expect(recorder.errors.isEmpty)
    #expect(help(.failed(28)) == .code(1))
    #expect(recorder.errors.contains("No space left on device"))
  }
}

import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The command `metrics`.
@Suite struct MetricsCommandTests {
  private func bench(_ names: String...) -> CommandBench {
    let bench = CommandBench()
    for name in names { _ = bench("acquire", name) }
    return bench
  }

  private func told(_ answer: Answer) throws -> [String] {
    try Exposition(answer.output).values.keys
      .filter { $0.name == "shared_breaker_permitted" }.compactMap { $0.labels["name"] }.sorted()
  }

  private func value(_ answer: Answer, _ name: String, _ labels: [String: String] = [:]) throws
    -> Double?
  {
    try Exposition(answer.output).values[.init(name: "shared_breaker_\(name)", labels: labels)]
  }

  @Test func `metrics prints the breakers that match, by name, up to the limit`() throws {
    let bench = bench("pay-us", "pay-eu", "mail", "*")
    #expect(try told(bench("metrics")) == ["*", "mail", "pay-eu", "pay-us"])
    #expect(try told(bench("metrics", "pay-*")) == ["pay-eu", "pay-us"])
    #expect(try told(bench("metrics", "mail", "*-us")) == ["mail", "pay-us"])
    let cut = bench("metrics", "--limit", "3")
    #expect(cut.code == 0)
    #expect(try told(cut) == ["*", "mail", "pay-eu"])
    #expect(
      cut.errors
        == "cbctl: left out 1 of 4 breakers: the limit is 3: raise --limit or use a pattern\n")
    #expect(try value(cut, "store_breakers_left_out") == 1)
    #expect(try value(cut, "store_breakers") == 4)
    #expect(bench("metrics", "--limit", "3", "--quiet").errors.isEmpty)
    let none = bench("metrics", "x*")
    #expect(none.code == 0)
    #expect(try told(none) == [])
  }

  @Test func `metrics ends with 66 for a missing name and prints the others`() throws {
    let bench = bench("pay")
    let answer = bench("metrics", "pya", "pay")
    #expect(answer.code == 66)
    #expect(answer.errors.contains("did you mean 'pay'?"))
    #expect(try told(answer) == ["pay"])
  }

  @Test func `metrics reports that the store is down and creates none`() throws {
    let bench = CommandBench()
    let answer = bench("metrics")
    #expect(answer.code == 69)
    #expect(answer.errors == "cbctl: no store yet at \(bench.path): its first use creates it\n")
    #expect(try value(answer, "store_up") == 0)
    #expect(try value(answer, "collected_timestamp_seconds") == 1_790_000_000)
    #expect(bench.files.isEmpty)
    #expect(bench("metrics", "--json").output.contains(#""name":"shared_breaker_store_up""#))
  }

  @Test func `metrics adds the given labels to every series`() throws {
    let bench = bench("pay")
    let answer = bench("metrics", "--label", "store=a \"b\"=c", "--label", "team_2=")
    let series = try Exposition(answer.output).values.keys
    #expect(series.count > 23)
    for one in series {
      #expect(one.labels["store"] == "a \"b\"=c" && one.labels["team_2"] == "")
    }
    #expect(
      bench("metrics", "--json", "--label", "store=a").output
        .contains(#"{"labels":{"store":"a","name":"pay"},"value":1}"#))
  }

  @Test func `metrics reserves exactly the labels that it uses itself`() {
    let snapshot = Samples.breaker("x", madeSecondsAgo: 1) {
      $0.mode.mode = .observe
      $0.mode.setAtMilliseconds = 1
    }
    let own = BreakerMetrics.families.flatMap { $0.samples(snapshot) }.flatMap { $0.labels }
    let stores = (StoreMetrics.families + FleetMetrics.families).flatMap {
      $0.samples(
        StoreFigures(
          now: BreakerTimestamp(millisecondsSince1970: 0), breakers: 1,
          fleet: FleetSamples.figures,
          files: [.init(name: "", bytes: 0)]))
    }.flatMap { $0.labels }
    #expect(Set((own + stores).map(\.name)) == LabelText.taken)
  }

  @Test func `metrics counts an opening that is shorter than the time between looks`() throws {
    let bench = bench("pay")
    bench.advance(by: 60_000)
    let before = bench("metrics")
    _ = bench("trip", "pay")
    bench.advance(by: 20)
    _ = bench("reset", "pay")
    bench.advance(by: 5_000)
    let after = bench("metrics")
    let labels = ["name": "pay", "state": "open"]
    #expect(try value(before, "state_seconds_total", labels) == 0)
    #expect(try value(after, "state_seconds_total", labels) == 0.02)
    #expect(try value(after, "transitions_total", ["name": "pay", "to": "open"]) == 1)
    #expect(
      try value(after, "state_seconds_total", ["name": "pay", "state": "closed"]) == 64)
  }

  @Test func `metrics escapes a name of a damaged store on a terminal and in a pipe`() throws {
    let bench = bench("pay")
    try Database.rows(bench.path, "UPDATE breaker SET name = 'a' || char(27) || 'b', era = 9")
    func printed(_ width: Int?) -> String {
      let recorder = Recorder()
      let words = ["--store", bench.path, "metrics"]
      _ = ControlKit.run(arguments: words, console: recorder.console(width: width))
      return recorder.output
    }
    for width in [80, nil] { #expect(printed(width).contains(#"{name="a\\u{1b}b"} 1"#)) }
  }

  @Test(arguments: [
    ["--mode", "640"], ["--mode", "8", "--output", "x"], ["--limit", "0"],
    ["--label", "x"], ["--label", "1x=y"], ["--label", "é=y"], ["--label", "name=y"],
    ["--label", "__x=y"], ["--label", "=y"], ["--label", "a=1", "--label", "a=2"],
  ])
  func `metrics refuses options that make no sense`(words: [String]) {
    let answer = CommandBench().run(["metrics"] + words)
    #expect(answer.code == 64)
    #expect(answer.output.isEmpty)
  }

  @Test func `metrics accepts a reader that has gone and reports a failure to write`() {
    let bench = bench("pay")
    let recorder = Recorder()
    func end(_ writing: Console.Writing) -> Ending {
      ControlKit.run(
        arguments: ["--store", bench.path, "metrics"], console: recorder.console(output: writing))
    }
    #expect(end(.closed) == .code(0))
    #expect(recorder.errors.isEmpty)
    #expect(end(.failed(ENOSPC)) == .code(1))
    #expect(recorder.errors.contains("No space left on device"))
  }
}

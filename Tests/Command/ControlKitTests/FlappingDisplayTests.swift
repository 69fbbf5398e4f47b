@_spi(Command) import SharedBreaker
import Testing

@testable import ControlKit

/// How people are told which breakers flap.
@Suite struct FlappingDisplayTests {
  /// A store with a breaker that has opened and closed again five times, and one that has not.
  private static func bench() -> CommandBench {
    let bench = CommandBench()
    for name in ["steady", "shaky"] { _ = bench("policy", name, "--set", "probes=2") }
    for _ in 1...Flapping.outages {
      _ = bench("trip", "shaky")
      _ = bench("reset", "shaky")
      bench.advance(by: 60_000)
    }
    return bench
  }

  private static func onTerminal(_ bench: CommandBench, _ words: String..., width: Int = 120)
    -> [String]
  {
    let recorder = Recorder()
    return bench.run(words + ["--no-color"], on: recorder.console(width: width), recorder).output
      .split(separator: "\n").map { String($0) }
  }

  @Test func `the status marks a breaker that flaps, and lists it before the healthy ones`() {
    let bench = Self.bench()
    let lines = Self.onTerminal(bench, "status")
    #expect(lines[0].split(separator: " ").prefix(4) == ["NAME", "STATE", "NOTE", "FOR"])
    #expect(lines[1].split(separator: " ").prefix(3) == ["shaky", "closed", "flapping"])
    #expect(lines[2].split(separator: " ").prefix(3) == ["steady", "closed", "-"])
    #expect(lines[3] == "2 breakers: 1 flapping, 1 closed")
    #expect(Flapping.span == .seconds(3_600))
    #expect(lines[4] == "flapping: shaky (5 or more outages in the last hour)")
    let plain = bench("status").output.split(separator: "\n")
    let notes = plain.map { $0.split(separator: " ").dropLast(6).last }
    #expect(notes == ["NOTE", "flapping", "-"])
    #expect(bench("check", "shaky").output == "permitted: closed, flapping\n")
    bench.advance(by: 3_600_000)
    #expect(Self.onTerminal(bench, "status")[3] == "2 breakers: 2 closed")
  }

  @Test func `every output says by the same rule whether a breaker flaps`() throws {
    let bench = Self.bench()
    func flaps(_ isSo: Bool) {
      let number = isSo ? 1 : 0
      #expect(
        bench("metrics").output.contains("shared_breaker_flapping{name=\"shaky\"} \(number)\n"))
      #expect(bench("status", "shaky", "--json").output.contains("\"flapping\":\(isSo)"))
      #expect(bench("show", "shaky").output.hasPrefix("shaky: closed\(isSo ? ", flapping" : "")\n"))
      #expect(bench("page").output.contains("<h2 id=\"flapping\">") == isSo)
    }
    flaps(true)
    bench.advance(by: 3_599_000 - 5 * 60_000)
    flaps(true)
    bench.advance(by: 1_000)
    flaps(false)
  }

  @Test func `the page puts a flapping breaker apart from the healthy ones`() throws {
    let bench = Self.bench()
    func page() throws -> [String] {
      let html = bench("page").output
      return html.matches(of: #/<h2 id="(worrying|flapping|usual)">([^<]*)</h2>/#).map {
        "\($0.1): \($0.2)"
      }
    }
    #expect(
      try page() == [
        "worrying: Needs attention (0)",
        "flapping: Flapping: closed now, with 5 or more outages in the last hour (1)",
        "usual: Healthy (1)",
      ])
    // A breaker that rejects calls needs attention first of all.
    _ = bench("trip", "shaky")
    #expect(try page() == ["worrying: Needs attention (1)", "usual: Healthy (1)"])
    #expect(bench("page").output.contains(">flapping, retry from "))
    _ = bench("reset", "shaky")
    bench.advance(by: 3_600_000)
    #expect(try page().last == "usual: Healthy (2)")
  }

  @Test func `a timeline shows where a breaker flapped, and not one long outage`() {
    let times = (0..<7).map { 6_000 - Int64($0) * 300 }
    let history = times.flatMap {
      [
        Samples.entry(.transition, from: "closed", to: "open", secondsAgo: $0),
        Samples.entry(.reset, from: "open", to: "closed", secondsAgo: $0 - 100),
      ]
    }
    let now = Samples.time
    func timeline(_ history: [HistoryEntry]) -> Timeline {
      let snapshot = Samples.breaker("payments", madeSecondsAgo: 9_000) {
        $0.generation = Int64(history.count) + 1
      }
      return Timeline(
        of: snapshot, history: history, from: now.earlier(by: .seconds(8_000)), to: now)
    }
    let parts = timeline(history).worst(inEachOf: 8)
    #expect(
      parts == [
        .passing, .passing, .flapping, .flapping, .passing, .passing, .passing, .passing,
      ])
    #expect(timeline(history).extent(of: .flapping) == (1_800_000, 1))
    let page = PageTimeline(timeline: timeline(history), subject: "x")
    #expect(page.words.hasPrefix("flapping for 30m in 1 period, open for 11m 40s in 7 periods"))
    // Four outages in an hour are four outages.
    let few = timeline(Array(history.suffix(8)))
    #expect(few.flapping.isEmpty)
    #expect(few.worst(inEachOf: 8).contains(.open))
  }
}

import SharedBreaker
import Testing

@testable import ControlKit

/// Which breakers flap.
@Suite struct FlappingTests {
  private static let now = Samples.time

  private static func outages(_ secondsAgo: [Int64]) -> Flapping {
    Flapping(outagesAt: secondsAgo.map { now.earlier(by: .seconds($0)) }, now: now)
  }

  @Test func `a breaker flaps if it has five outages within an hour`() {
    #expect(!Self.outages([]).isSo)
    #expect(!Self.outages([60, 120, 180, 240]).isSo)
    #expect(Self.outages([60, 120, 180, 240, 3_599]).isSo)
    #expect(!Self.outages([60, 120, 180, 240, 3_600]).isSo)
    // The clock was set back meanwhile.
    let future = [1, 2, 3, 4, 5].map { Self.now.later(by: .seconds($0)) }
    #expect(!Flapping(outagesAt: future, now: Self.now).isSo)
  }

  @Test
  func `a breaker that stays open does not flap, because only the beginning of an outage counts`() {
    func flapping(_ from: String, _ to: String) -> Flapping {
      let entries = (1...9).map {
        Samples.entry(.transition, from: from, to: to, secondsAgo: $0 * 60)
      }
      return Flapping(history: entries, now: Self.now)
    }
    #expect(flapping("closed", "open").count == 9)
    #expect(flapping("half_open", "open").count == 0)
    #expect(flapping("half_open", "closed").count == 0)
  }

  @Test func `the page puts a flapping breaker apart from the healthy ones`() throws {
    let bench = Bench()
    _ = bench("policy", "steady", "--set", "probes=2")
    _ = bench("policy", "shaky", "--set", "probes=2")
    func page() throws -> [String] {
      let html = bench("page").output
      return html.matches(of: #/<h2 id="(worrying|flapping|usual)">([^<]*)</h2>/#).map {
        "\($0.1): \($0.2)"
      }
    }
    for round in 1...Flapping.outages {
      #expect(try page().last == "usual: Healthy (2)", "\(round)")
      _ = bench("trip", "shaky")
      _ = bench("reset", "shaky")
      bench.advance(by: 60_000)
    }
    #expect(
      try page() == [
        "worrying: Needs attention (0)",
        "flapping: Flapping: closed now, and opened 5 times or more in the last 1h (1)",
        "usual: Healthy (1)",
      ])
    // A breaker that rejects calls needs attention first of all.
    _ = bench("trip", "shaky")
    #expect(try page() == ["worrying: Needs attention (1)", "usual: Healthy (1)"])
    _ = bench("reset", "shaky")
    bench.advance(by: 3_600_000)
    #expect(try page().last == "usual: Healthy (2)")
  }
}

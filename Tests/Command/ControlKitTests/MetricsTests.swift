import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import ControlKit
@testable import SharedBreaker

/// The metrics of a store and its breakers.
@Suite struct MetricsTests {
  private static let store = StoreFigures(
    now: BreakerTimestamp(millisecondsSince1970: 1_790_000_600_125), breakers: 9, leftOut: 2,
    fleet: FleetSamples.figures,
    files: [.init(name: "database", bytes: 40_960), .init(name: "log", bytes: 0)])

  private static func text(_ report: MetricsReport, asJSON isJSON: Bool = false) -> String {
    let recorder = Recorder()
    let console = recorder.console()
    report.write(asJSON: isJSON) { _ = console.output($0) }
    // The version of SQLite differs between machines.
    return recorder.output.replacing(SharedStore.sqliteVersion, with: "3.0.0")
  }

  private static let sample = MetricsReport(
    store: store, breakers: Samples.all + LimitRenderingTests.all.prefix(1))

  @Test func `the metrics match their snapshots`() throws {
    let text = Self.text(Self.sample)
    Golden.expect(text, "metrics.txt")
    Golden.expect(Self.text(Self.sample, asJSON: true), "metrics.json")
    _ = try Exposition(text)
  }

  @Test func `the metrics of a store that is down match their snapshot`() throws {
    let text = Self.text(MetricsReport(store: StoreFigures(now: Self.store.now)))
    Golden.expect(text, "metrics-down.txt")
    #expect(try Exposition(text).values[.init(name: "shared_breaker_store_up", labels: [:])] == 0)
  }

  @Test func `the metrics of each breaker agree with its snapshot`() throws {
    let exposition = try Exposition(Self.text(Self.sample))
    func value(_ name: String, _ labels: [String: String]) -> Double? {
      exposition.values[.init(name: "shared_breaker_\(name)", labels: labels)]
    }
    for breaker in Samples.all {
      for state in BreakerState.allCases {
        let labels = ["name": VisibleText.bare(breaker.name), "state": state.wireName]
        #expect(value("state", labels) == (breaker.state == state ? 1 : 0))
      }
    }
    let name = "payments"
    #expect(value("transitions_total", ["name": name, "to": "open"]) == 3)
    // The last second in the current state is left to the next scrape.
    #expect(value("state_seconds_total", ["name": name, "state": "open"]) == 48.75)
    #expect(value("state_seconds_total", ["name": name, "state": "closed"]) == 549.999999999)
    #expect(value("state_seconds_total", ["name": name, "state": "half_open"]) == 0.250000001)
    #expect(value("calls_total", ["name": name, "outcome": "success"]) == 1_000)
    #expect(value("last_transition_timestamp_seconds", ["name": name]) == 1_790_000_580)
    #expect(value("probes_in_flight", ["name": name]) == 2)
    #expect(value("store_breakers", [:]) == 9)
  }

  /// The name labels that the series of these breakers have.
  private static func names(_ breakers: [String]) throws -> [String] {
    let snapshots = breakers.map {
      BreakerSnapshot(
        of: StoredBreaker(id: 1, name: $0, createdAtMilliseconds: 0), at: Samples.now,
        isGone: { _ in false })
    }
    let text = Self.text(MetricsReport(store: Self.store, breakers: snapshots))
    let series = try Exposition(text).values.keys.compactMap { $0.labels["name"] }
    #expect(series.count == 24 * breakers.count)
    return Set(series).sorted()
  }

  @Test(arguments: [
    #"a"b"#, #"a\b"#, #"\n"#, #"a\u"#, "größe 結果 😀", "👩‍👩‍👧", "\"\u{301}\\\u{301}", "{}=,", " ",
  ])
  func `the metrics have a name byte for byte`(name: String) throws {
    let names = try Self.names([name]).map { Array($0.utf8) }
    #expect(names == [Array(name.utf8)])
  }

  @Test(arguments: [
    ("a\nb", #"a\u{a}b"#), ("\u{1b}[2J\r", #"\u{1b}[2J\u{d}"#), ("a\u{202e}b", #"a\u{202e}b"#),
    ("a\u{200b}", #"a\u{200b}"#), ("\u{2028}", #"\u{2028}"#),
  ])
  func `the metrics escape a name that would mislead a reader`(
    name: String, shown: String
  ) throws {
    #expect(try Self.names([name]) == [shown])
  }

  @Test func `the metrics never give two breakers one name`() throws {
    let names = ["a\u{202e}", #"a\u{202e}"#, #"a\u{5c}u{202e}"#, #"a\\u{202e}"#]
    #expect(try Self.names(names).count == names.count)
  }

  @Test func `the metrics pass the checks of promtool without a complaint`() throws {
    guard let tool = PromTool.path else { return PromTool.noteMissing() }
    let directory = try TemporaryDirectory()
    let names = ["a\"b", "a\\b\nc", "結果"].map {
      BreakerSnapshot(
        of: StoredBreaker(id: 1, name: $0, createdAtMilliseconds: 0), at: Samples.now,
        isGone: { _ in false })
    }
    let reports = [
      Self.sample, MetricsReport(store: StoreFigures(now: Self.store.now)),
      MetricsReport(store: Self.store, breakers: names),
    ]
    for report in reports {
      let file = directory.file("metrics")
      try Files.write(file, Array(Self.text(report).utf8))
      let output = try Child.run(
        "/bin/sh", ["-c", "\(tool) check metrics <'\(file)' 2>&1 || echo refused"])
      #expect(output == "")
    }
  }
}

/// Prometheus' own checker, which is used only where it is installed.
///
/// Debian's package `prometheus`, which has it, is too large to require.
enum PromTool {
  static let path: String? = {
    let found = try? Child.run("/bin/sh", ["-c", "command -v promtool || true"])
    return found.flatMap { $0.split(separator: "\n").first }.map { String($0) }
  }()

  static func noteMissing() {
    print("promtool is not installed: what it would say is left out of the tests")
  }
}

import TestSupport
import Testing

@testable import ControlKit

/// The dashboard, the alert rules and the guide for monitoring.
@Suite struct MonitoringTests {
  private static let folder =
    "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
  private static let resources =
    folder + "/Sources/Breaker/SharedBreaker/SharedBreaker.docc/Resources"

  private static func text(_ path: String) throws -> String {
    String(decoding: try Files.read(path), as: UTF8.self)
  }

  private static let families =
    (StoreMetrics.families + FleetMetrics.families).map(\.name)
    + BreakerMetrics.families.map(\.name)

  /// The names of metrics that a text has.
  private static func names(in text: String) -> Set<String> {
    // The buckets of a histogram have a name of their own.
    Set(
      text.matches(of: /shared_breaker_[a-z_]+/).map {
        String($0.0.hasSuffix("_bucket") ? $0.0.dropLast("_bucket".count) : $0.0)
      })
  }

  @Test(arguments: ["grafana-dashboard.json", "prometheus-alerts.yml"])
  func `the dashboard and the alerts use only metrics that exist`(file: String) throws {
    let known = Set(Self.families)
    let asked = Self.names(in: try Self.text("\(Self.resources)/\(file)"))
    #expect(asked.count > 4)
    #expect(asked.subtracting(known) == [])
  }

  @Test func `the guide names every metric and every alert`() throws {
    let guide = try Self.text(
      Self.folder + "/Sources/Breaker/SharedBreaker/SharedBreaker.docc/Monitoring.md")
    for family in Self.families { #expect(guide.contains("`\(family)`")) }
    let alerts = try Self.text(Self.resources + "/prometheus-alerts.yml")
      .matches(of: /alert: ([A-Za-z]+)/).map { $0.1 }
    #expect(alerts.count == 17)
    for alert in alerts { #expect(guide.contains("`\(alert)`"), "\(alert)") }
    #expect(Self.names(in: guide).subtracting(Self.families) == [])
  }

  @Test func `no alert has the label of a closed breaker`() throws {
    let rules = try Self.text(Self.resources + "/prometheus-alerts.yml")
    #expect(!rules.contains(#"state="closed""#))
    #expect(rules.contains("max without (state) (shared_breaker_state{"))
  }

  @Test func `the alert rules pass the checks of promtool`() throws {
    guard let tool = PromTool.path else { return PromTool.noteMissing() }
    let output = try Child.run(tool, ["check", "rules", Self.resources + "/prometheus-alerts.yml"])
    let rules = try Self.text(Self.resources + "/prometheus-alerts.yml").matches(of: /- alert:/)
      .count
    #expect(output.contains("SUCCESS: \(rules) rules found"))
    let tests = Self.folder + "/Tests/Command/ControlKitTests/Snapshots/alerts-test.yml"
    let verdict = try Child.run("/bin/sh", ["-c", "\(tool) test rules '\(tests)' 2>&1 || true"])
    #expect(verdict.contains("SUCCESS") && !verdict.contains("FAILED"), "\(verdict)")
  }
}

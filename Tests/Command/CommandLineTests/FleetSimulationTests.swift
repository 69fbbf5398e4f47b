import TestSupport
import Testing

/// The tables of the guide "A Fleet of Hosts".
@Suite struct FleetSimulationTests {
  @Test(.timeLimit(.minutes(60)))
  func `the guide has the rows that the simulation prints for small fleets`() throws {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let path = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/AFleetOfHosts.md"
    let guide = String(decoding: try Files.read(path), as: UTF8.self).split(separator: "\n")
    let rows = try Child.run(BuiltProducts.path(of: "fleet-simulation"), ["100"])
      .split(separator: "\n")
    #expect(rows.count > 30)
    for row in rows { #expect(guide.contains(row), "\(row)") }
  }
}

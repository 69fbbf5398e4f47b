import BreakerDocuments
import ProgramKit
import SharedBreaker
import Testing

@testable import ControlKit

/// The output of `fleet status` about a fleet.
@Suite struct FleetTextTests {
  private static let small = try? RelayStatus(document: FleetSamples.document)

  private func text(
    _ status: RelayStatus, fitting patterns: [String] = [], isComplete: Bool = false
  ) -> FleetText {
    let overview = FleetOverview(
      of: status, fitting: patterns.map { NamePattern($0) }, isComplete: isComplete)
    return FleetText(status: status, overview: overview, now: FleetSamples.now)
  }

  private func page(_ text: FleetText, width: Int = 80, isColored: Bool = false) -> String {
    text.page(width: width, painter: Painter(isOn: isColored))
  }

  @Test func `a small fleet is a table with a column for each host`() throws {
    let status = try #require(Self.small)
    Golden.expect(page(text(status)), "fleet.txt")
    Golden.expect(page(text(status, isComplete: true), isColored: true), "fleet-all.txt")
    Golden.expect(text(status).plain, "fleet-pipe.txt")
    let overview = FleetOverview(of: status, isComplete: false)
    Golden.expect(FleetDocument.of(status, showing: overview).text + "\n", "fleet.json")
  }

  @Test func `a large fleet is a line for each breaker with the hosts counted`() {
    Golden.expect(page(text(FleetSamples.large())), "fleet-large.txt")
    Golden.expect(
      page(text(FleetSamples.large(), isComplete: true), isColored: true), "fleet-large-all.txt")
  }

  @Test(arguments: [40, 58, 79, 80, 100, 160], [1, 2, 5, 30])
  func `the page of a fleet fits a terminal`(width: Int, hosts: Int) {
    let page = page(text(FleetSamples.large(hosts: hosts), isComplete: true), width: width)
    for line in page.split(separator: "\n") {
      #expect(TextWidth.of(String(line)) <= width, "\(line)")
    }
    #expect(page.contains("payments"))
  }

  @Test func `colours change nothing in the page of a fleet but its colours`() throws {
    for status in [try #require(Self.small), FleetSamples.large()] {
      let plain = page(text(status))
      let colored = page(text(status), isColored: true)
      #expect(colored != plain)
      #expect(colored.replacing(/\u{1b}\[\d*m/, with: "") == plain)
    }
  }

  @Test func `breakers that are closed and automatic everywhere are only counted`() throws {
    let status = try #require(Self.small)
    #expect(!page(text(status)).contains("search"))
    #expect(page(text(status, isComplete: true)).contains("search"))
    #expect(page(text(status, fitting: ["sea*"])).contains("\nsearch  closed  closed  -\n"))
    var healthy = status
    healthy.hosts = try #require(status.hosts).map { host in
      var host = host
      host.breakers.removeAll { $0.name != "search" }
      return host
    }
    #expect(
      page(text(healthy)).contains("\nEvery breaker is closed and automatic on every host.\n"))
    #expect(page(text(healthy)).contains("Silent hosts"))
  }

  @Test func `a silent host is not counted for any breaker`() throws {
    let status = try #require(Self.small)
    let overview = FleetOverview(of: status)
    #expect(overview.silent.map(\.name) == ["host-d"])
    let payments = try #require(overview.rows.first { $0.name == "payments" })
    #expect(
      payments.phrases(on: overview.hosts) == [
        "open on 2 of 3 hosts: host-a, host-b", "half_open on 1 of 3 hosts: host-c",
      ])
  }

  @Test func `the worst breaker of a fleet comes first`() throws {
    let names = FleetOverview(of: FleetSamples.large()).rows.map(\.name)
    #expect(names == ["search", "payments", "mirror", names[3], "mail"])
  }

  @Test func `a relay that has heard everything is up to date`() {
    var status = FleetSamples.large(hosts: 2)
    #expect(text(status).relayWords == "connected, 3ms behind the others, no commands waiting")
    status.lag = .zero
    #expect(text(status).relayWords == "connected, up to date, no commands waiting")
    status.lag = nil
    #expect(text(status).relayWords == "connected, no commands waiting")
    let overview = FleetOverview(of: status)
    let mirror = overview.rows.first { $0.name == "mirror" }
    #expect(mirror?.phrases(on: overview.hosts) == ["half_open on both hosts"])
  }

  @Test func `every line for programs has one word in each column`() throws {
    for status in [try #require(Self.small), FleetSamples.large()] {
      for line in text(status, isComplete: true).plain.split(separator: "\n") {
        #expect(line.split(separator: " ").count == 7, "\(line)")
      }
    }
  }

  @Test func `text of other hosts is made visible before it is printed`() throws {
    let hostile = "a\u{1b}[2J\n\u{202e}\u{7}"
    var status = FleetSamples.large(hosts: 2)
    status.fleet = hostile
    status.host = hostile
    status.hosts = [false, true].map { isSilent in
      let breakers = (0..<3).map { place in
        RelayStatus.Standing(
          name: hostile + "\(place)", state: hostile, mode: place == 0 ? "automatic" : hostile,
          trips: 0)
      }
      return .init(name: hostile, silence: nil, isSilent: isSilent, breakers: breakers)
    }
    let text = text(status)
    for page in [page(text), page(text, width: 30), text.plain] {
      #expect(page.contains(#"a\u{1b}[2J\u{a}\u{202e}\u{7}"#) || page.contains(#"\u{1b}"#))
      #expect(!page.unicodeScalars.contains { $0 != "\n" && OutsideText.misleads($0) })
    }
  }
}

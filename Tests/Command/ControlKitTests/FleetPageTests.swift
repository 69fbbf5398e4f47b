@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The page that `fleet page` writes, and what `fleet status` prints about hundreds of hosts.
@Suite struct FleetPageTests {
  /// A fleet of hundreds of hosts, some of which are silent, wrong, unsigned or old.
  private static func huge() -> RelayStatus {
    var status = FleetSamples.large(hosts: 500)
    status.keys = ["0b7e6e01"]
    status.unproven = 7
    status.refused = 9
    status.hosts = status.hosts?.enumerated().map { place, host in
      var host = host
      host.relay = place % 50 == 0 ? "0.9.0" : "0.10.0"
      host.speaks = place % 50 == 0 ? 1 : 2
      host.isProven = place % 50 != 0
      host.keys = place % 50 == 0 ? [] : [place % 60 == 1 ? "ffffffff" : "0b7e6e01"]
      host.skew = .seconds(place % 40 == 0 ? -90 * place : 0)
      if place % 30 == 29 {
        host.isSilent = true
        host.silence = .seconds(60 * place)
      }
      host.breakers += (0..<30).map { number in
        FleetSamples.standing(
          "shard-\(number)", place < 4 && number % 2 == 0 ? "open" : "closed",
          openEndsIn: .seconds(9))
      }
      return host
    }
    return status
  }

  private func text(_ status: RelayStatus, isComplete: Bool = false) -> FleetText {
    FleetText(
      status: status, overview: FleetOverview(of: status, isComplete: isComplete),
      now: FleetSamples.now)
  }

  @Test func `a fleet of five hundred hosts fits a screen`() {
    let status = Self.huge()
    let page = text(status).page(width: 100, painter: Painter(isOn: false))
    Golden.expect(page, "fleet-huge.txt")
    #expect(page.split(separator: "\n", omittingEmptySubsequences: false).count <= 45)
    for line in page.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 100) }
    let all = text(status, isComplete: true).page(width: 100, painter: Painter(isOn: false))
    for name in ["shard-1,", "shard-29", "web-450.example.net  for"] {
      #expect(all.contains(name), "\(name)")
    }
  }

  private func page(_ status: RelayStatus, _ commands: [NamedConfirmations] = []) -> FleetPage {
    FleetPage(
      status: status, overview: FleetOverview(of: status, isComplete: false), commands: commands,
      omitted: 0, now: FleetSamples.now)
  }

  private static let commands = [
    NamedConfirmations(
      name: "payments",
      confirmations: FleetConfirmations(commands: [
        .init(
          aspect: "mode", stamp: 5, host: "host-a", author: "ann, via cbctl", reason: "<drill>",
          age: .seconds(61), isTold: true,
          hosts: [
            .init("host-a", .confirmed, silence: .zero),
            .init("host-b", .refused, why: "it does not fit", silence: .zero),
            .init("host-d", .silent, silence: .seconds(750)),
          ]),
        .init(
          aspect: "state", stamp: 4, host: "host-b", author: "bob", verifiedUser: "bob",
          isProven: true, reason: nil, age: .seconds(90),
          isTold: false, refusal: "it seems to be from tomorrow"),
      ]))
  ]

  @Test func `the page of a small fleet matches its snapshot`() throws {
    let status = try RelayStatus(document: FleetSamples.document)
    let html = page(status, Self.commands).html
    let main = try #require(html.firstRange(of: "<header>"))
    Golden.expect(String(html[main.lowerBound...]), "page-of-fleet.html")
    #expect(html.contains("&lt;drill&gt;") && !html.contains("<drill>"))
    #expect(!html.contains("<script"))
    // A narrow screen shows no heads of columns, so the cells say what they are.
    #expect(html.contains(#"data-label="payments""#) && html.contains(#"data-label="Protocol""#))
    #expect(html.contains("td[data-label]::before { content: attr(data-label)"))
  }

  @Test func `the page of a large fleet has a row for hosts that stand alike`() {
    let html = page(Self.huge()).html
    #expect(html.utf8.count < 400_000)
    #expect(html.split(separator: #"<tr role="row"><th role="rowheader""#).count < 560)
    #expect(html.contains("see 'cbctl fleet status --all'"))
    #expect(html.contains("not signed with a key of this host"))
  }

  @Test func `text of other hosts cannot become markup`() {
    var status = FleetSamples.large(hosts: 2)
    let hostile = "<script>&\u{202e}"
    status.fleet = hostile
    status.keys = [hostile]
    status.hosts = status.hosts?.map { host in
      var host = host
      host.name = hostile
      host.relay = hostile + host.name
      host.keys = [hostile]
      host.isProven = true
      host.breakers = [FleetSamples.standing(hostile, hostile, mode: hostile)]
      return host
    }
    let html = page(status).html
    #expect(!html.contains("<script") && !html.contains("\u{202e}"))
    #expect(html.contains("&lt;script&gt;"))
  }

  @Test func `fleet page writes a file, and says what it cannot do`() throws {
    let fleet = try FleetBench()
    let directory = try TemporaryDirectory()
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    let path = directory.file("fleet.html")
    let answer = fleet("fleet", "page", "--output", path, "--json")
    #expect(answer.code == 0 && answer.output.contains(#""breakers":2"#), "\(answer)")
    #expect(String(decoding: try Files.read(path), as: UTF8.self).contains("<h1>Fleet"))
    #expect(fleet("fleet", "page").output.hasPrefix("<!doctype html>"))
    #expect(fleet("fleet", "page", "--json").code == 64)
    #expect(fleet("fleet", "status", "--output", path).code == 64)
    #expect(fleet("fleet", "page", "--mode", "644").code == 64)
    withExtendedLifetime(server) {}
  }

  @Test func `fleet forget says what has become of a host`() throws {
    let fleet = try FleetBench()
    func answer(_ document: String, _ words: String...) throws -> Answer {
      let server = try FakeRelay(beside: fleet.bench.path, .answers(document))
      defer { withExtendedLifetime(server) {} }
      return fleet.bench.run(["fleet", "forget"] + words)
    }
    let done = #"{"version":1,"silent_ms":60000,"forgotten":true,"problem":null}"#
    let gone = try answer(done, "web-1")
    #expect(gone.code == 0 && gone.output == "web-1: forgotten after 1m of silence\n")
    #expect(try answer(done, "web-1", "--json").output.contains(#""forgotten":true"#))
    let alive = try answer(
      #"{"version":1,"silent_ms":300,"forgotten":false,"problem":null}"#, "web-1")
    #expect(alive.code == 1 && alive.errors.contains("it was heard from 300ms ago"))
    let none = try answer(
      #"{"version":1,"silent_ms":null,"forgotten":false,"problem":null}"#, "web-1")
    #expect(none.code == 1 && none.errors.contains("knows no host web-1"))
    let broken = try answer(
      #"{"version":1,"silent_ms":null,"forgotten":false,"problem":"no server"}"#, "web-1")
    #expect(broken.code == 69 && broken.errors.contains("no server"))
    #expect(try answer("", "web-1").errors.contains("earlier version"))
    #expect(try answer(done).code == 64)
    #expect(try answer(done, "web-*").code == 64)
    fleet.relay.release()
    #expect(try answer(done, "web-1").code == 69)
  }

  @Test func `the doctor warns of unsigned messages`() throws {
    let fleet = try FleetBench()
    _ = try fleet.relay.note(isConnected: true, problem: nil)
    for (document, words) in [
      (#""unproven":3"#, "3 messages without a valid signature"),
      (#""accepts_unsigned":true"#, "what is not signed counts too"),
    ] {
      let text = FleetSamples.document.replacing(#""refused":1"#, with: #""refused":1,"# + document)
      let server = try FakeRelay(beside: fleet.bench.path, .answers(text))
      let answer = fleet("doctor")
      #expect(answer.output.contains(words), "\(answer)")
      withExtendedLifetime(server) {}
    }
  }
}

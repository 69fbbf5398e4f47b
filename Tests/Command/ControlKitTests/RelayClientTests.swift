import BreakerDocuments
import ProgramKit
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Asking a relay over its socket, whatever the relay does.
@Suite struct RelayClientTests {
  private let directory: TemporaryDirectory
  private var store: String { directory.file("breakers.db") }

  init() throws { directory = try TemporaryDirectory() }

  /// Asks with a patience that is enough on any machine, unless a test says otherwise.
  private func status(
    at path: String? = nil, patience: Duration = .seconds(600)
  ) throws(RelaySilence) -> RelayStatus {
    try RelayClient(store: path ?? store, patience: patience).status()
  }

  /// Why there is no status.
  private func silence(patience: Duration = .seconds(600)) -> String? {
    do throws(RelaySilence) {
      _ = try status(patience: patience)
      return nil
    } catch {
      return error.why
    }
  }

  @Test func `a relay is asked once and its whole answer is read`() throws {
    let relay = try FakeRelay(beside: store, .answers(FleetSamples.document))
    let status = try status()
    #expect(relay.asked == ["status\n"])
    #expect(status.fleet == "prod" && status.host == "host-a")
    #expect(status.isConnected && status.lag == .milliseconds(3) && status.waiting == 2)
    #expect(status.since?.description == "2026-09-18T10:00:00.000Z")
    #expect(status.applied == 12 && status.refused == 1 && status.problem == nil)
    let hosts = try #require(status.hosts)
    #expect(hosts.map(\.name) == ["host-b", "host-a", "host-c", "host-d"])
    #expect(hosts[0].breakers[0].openEndsIn == .milliseconds(1_200))
    #expect(hosts[3].isSilent && hosts[3].silence == .seconds(750))
  }

  @Test func `the relay of a store with a long path is found`() throws {
    var folder = directory.path
    for _ in 0..<5 {
      folder += "/" + String(repeating: "long", count: 8)
      try Files.makeDirectory(folder)
    }
    let path = folder + "/breakers.db"
    let relay = try FakeRelay(beside: path, .answers(FleetSamples.document))
    #expect(try status(at: path).fleet == "prod")
    withExtendedLifetime(relay) {}
  }

  @Test func `an answer that is longer than a socket holds is read to its end`() throws {
    let breakers = (0..<6_000).map {
      #"{"name":"breaker-\#($0)","state":"closed","mode":"automatic","open_ends_in_ms":null}"#
    }
    let hosts = #"[{"host":"b","breakers":[\#(breakers.joined(separator: ","))]}]"#
    let relay = try FakeRelay(
      beside: store, .answers(FleetSamples.document(hosts: hosts)))
    #expect(try status().hosts?.first?.breakers.count == 6_000)
    withExtendedLifetime(relay) {}
  }

  @Test func `the client says that no relay listens`() throws {
    #expect(silence() == "nothing listens at its socket")
    try FakeRelay.leaveStale(beside: store)
    #expect(silence() == "nothing listens at its socket")
  }

  @Test(arguments: ["", #"{"version":1,"#])
  func `a relay that stops in the middle of its answer is given up at the deadline`(
    beginning: String
  ) throws {
    let relay = try FakeRelay(beside: store, .hangs(after: beginning))
    #expect(silence(patience: .milliseconds(50)) == "it took too long")
    withExtendedLifetime(relay) {}
  }

  @Test func `an answer without end is refused`() throws {
    let relay = try FakeRelay(beside: store, .babbles)
    #expect(silence() == "its answer is longer than 32 MiB")
    withExtendedLifetime(relay) {}
  }

  @Test(arguments: [
    ("", "it must begin with {"), ("[]", "it must begin with {"),
    ("{\"version\":2}", "it has version 2, and this cbctl reads version 1"),
    ("{}", "it has version null, and this cbctl reads version 1"),
    (#"{"version":1}"#, "it has no fleet"),
    (#"{"version":1,"fleet":"x","host":"y","hosts":[{"host":1}]}"#, "it has no host"),
    (#"{"version":1,"fleet":"x","host":"y","hosts":[1"#, "a , or ] is missing"),
  ])
  func `an answer that is not a status is refused`(answer: String, why: String) throws {
    let relay = try FakeRelay(beside: store, .answers(answer))
    let silence = silence()
    #expect(silence?.hasPrefix("its answer cannot be understood: ") == true)
    #expect(silence?.hasSuffix(why) == true, "\(silence ?? "")")
    withExtendedLifetime(relay) {}
  }

  @Test func `a status is read as it was written, also of clocks that are behind`() throws {
    var status = FleetSamples.large(hosts: 2)
    status.skew = .seconds(-90)
    status.keys = ["0b7e6e01", "ffffffff"]
    status.obeyed = ["ops"]
    status.unproven = 3
    status.acceptsUnsigned = true
    status.hosts?[1].skew = .milliseconds(-3_600_000)
    status.hosts?[1].relay = "0.9.0"
    status.hosts?[1].speaks = 2
    status.hosts?[1].isProven = false
    status.hosts?[1].keys = ["0b7e6e01"]
    let read = try RelayStatus(document: status.document(answering: .status).text)
    #expect(read == status)
    let text = FleetDocument.of(read, showing: FleetOverview(of: read)).text
    #expect(text.contains(#""skew_ms":-90000"#) && text.contains(#""skew_ms":-3600000"#))
  }

  @Test func `a status with members that are missing or unknown can be read`() throws {
    let status = try RelayStatus(
      document: #"{"version":1,"fleet":"x","host":"y","new":{"a":[1]},"hosts":[3,{"host":"z"}]}"#)
    #expect(!status.isConnected && status.since == nil && status.lag == nil)
    #expect(status.hosts == [.init(name: "z", silence: nil, isSilent: false, breakers: [])])
  }
}

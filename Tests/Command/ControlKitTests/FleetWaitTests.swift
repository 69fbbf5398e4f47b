import Glibc
import JSONText
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Waiting until the hosts of a fleet have carried out a command.
@Suite struct FleetWaitTests {
  private typealias Host = FleetConfirmations.Host

  /// Runs a command to pay while a relay passes it on, and says this of the hosts.
  private func answer(
    _ words: [String], _ hosts: [Host], winner: String? = nil,
    whenAsked: @escaping @Sendable (String) -> Void = { _ in }
  ) throws -> Answer {
    let fleet = try FleetBench()
    let stamp = fleet.bench.options.clock.wallTime.millisecondsSince1970
    let document = FleetConfirmations(commands: [
      .init(
        aspect: "mode", stamp: stamp, host: "host-a", author: "x", reason: nil, age: .zero,
        isTold: winner == nil, winner: winner, hosts: hosts)
    ]).document.text
    let relay = try FakeRelay(beside: fleet.bench.path, .answers(document), whenAsked: whenAsked)
    let threads = Threads()
    threads.start { [relay = fleet.relay] in
      while let waiting = try? relay.pendingCommands(), waiting.isEmpty { usleep(1_000) }
      try? relay.published((try? relay.pendingCommands().map(\.id)) ?? [])
    }
    defer { threads.join() }
    let answer = fleet.bench.run(["force", "pay", "forced_open", "--fleet"] + words)
    #expect(
      relay.asked.allSatisfy { $0 == "confirmations pay\n" || $0.hasPrefix("giving ") }
        && !relay.asked.isEmpty)
    return answer
  }

  /// The last line of a command to pay that does not wait for hosts, while something happens to it.
  private func end(_ happening: @escaping @Sendable (FleetBench) -> Void) throws -> String {
    let fleet = try FleetBench()
    let recorder = Recorder()
    var console = recorder.console()
    console.publishPatience = .seconds(600)
    let threads = Threads()
    threads.start {
      while let waiting = try? fleet.pending(), waiting.isEmpty { usleep(1_000) }
      happening(fleet)
    }
    defer { threads.join() }
    let answer = fleet.bench.run(
      ["force", "pay", "forced_open", "--fleet"], on: console, recorder)
    #expect(answer.code == 0 && answer.errors.isEmpty)
    return answer.output
  }

  @Test func `a command that the server has is published, and nothing is said about hosts`() throws
  {
    let output = try end { fleet in
      try? fleet.relay.published((try? fleet.relay.pendingCommands().map(\.id)) ?? [])
    }
    #expect(output.hasSuffix("; published to fleet prod\n"))
  }

  @Test func `a command that is withdrawn meanwhile is promised for this host alone`() throws {
    let output = try end { fleet in
      let store = SharedStore(path: fleet.bench.path, options: fleet.bench.options)
      _ = try? store.withdrawCommands(to: "pay")
    }
    #expect(output.hasSuffix("; on this host; fleet prod may not have it\n"))
  }

  @Test func `a command can wait until every host has confirmed it`() throws {
    let hosts = ["host-a", "host-b"].map { Host($0, .confirmed, silence: .zero) }
    let answer = try answer(["--wait", "10m"], hosts)
    #expect(answer.code == 0 && answer.errors.isEmpty)
    #expect(answer.output.hasSuffix("; confirmed by all 2 hosts of fleet prod\n"))
  }

  @Test func `hosts that cannot confirm it are named, and have an exit code of their own`() throws {
    let hosts = [
      Host("host-a", .confirmed, silence: .zero), Host("host-b", .pending, silence: .zero),
      Host("host-c", .refused, why: "no \u{1b}room", silence: .zero),
    ]
    let answer = try answer(["--wait", "100ms"], hosts)
    #expect(answer.code == 68)
    #expect(answer.output.hasSuffix("; confirmed by 1 of 3 hosts of fleet prod\n"))
    #expect(
      answer.errors == #"""
        cbctl: refused: host-c (no \u{1b}room)
        cbctl: not confirmed yet: host-b

        """#)
  }

  @Test func `a host that stays silent is waited for, but not longer`() throws {
    let hosts = [
      Host("host-a", .confirmed, silence: .zero), Host("host-b", .silent, silence: .seconds(750)),
    ]
    #expect(try answer(["--wait", "100ms"], hosts).code == 68)
    #expect(FleetCourse.missing(of: hosts) == ["silent: host-b (for 12m 30s)"])
    #expect(FleetCourse.words(of: hosts) == "confirmed by 1 of 2 hosts")
  }

  @Test(arguments: [SIGINT, SIGTERM])
  func `a wait that is stopped says how things stand, and ends as the signal says`(signal: Int32)
    throws
  {
    let hosts = [
      Host("host-a", .confirmed, silence: .zero), Host("host-b", .pending, silence: .zero),
    ]
    let waiter = Guarded(pthread_self())
    let answer = try answer(["--wait", "1h"], hosts) { question in
      // Signals are blocked by then.
      if question.hasPrefix("confirmations") { waiter.withLock { _ = pthread_kill($0, signal) } }
    }
    #expect(answer.code == 128 + signal)
    #expect(answer.output.hasSuffix("; confirmed by 1 of 2 hosts of fleet prod\n"))
    #expect(
      answer.errors == """
        cbctl: not confirmed yet: host-b
        cbctl: stopped waiting, which takes nothing back: 'cbctl fleet status pay' says who has carried it out

        """)
  }

  @Test func `a command that loses to a later one is told so`() throws {
    let answer = try answer(["--wait", "10m"], [], winner: "host-b")
    #expect(answer.code == 68)
    #expect(
      answer.output.hasSuffix("; overruled by a later command from host-b of fleet prod\n"))
  }

  @Test func `the document says what is known of the fleet`() throws {
    let hosts = [Host("host-b", .refused, why: "no", silence: .seconds(1))]
    let answer = try answer(["--wait", "10m", "--json"], hosts)
    #expect(answer.code == 68)
    #expect(
      answer.output.hasSuffix(
        #""fleet":{"fleet":"prod","published":true,"refusal":null,"overtaken_by":null,"#
          + #""waited":true,"confirmed":false,"hosts":[{"host":"host-b","#
          + #""standing":"refused","why":"no","silent_ms":1000}]}}"# + "\n"))
  }

  @Test func `many hosts are counted, and the first are named`() {
    let hosts = (10..<30).map { Host("host-\($0)", .pending, silence: .zero) }
    #expect(
      FleetCourse.missing(of: hosts) == [
        "not confirmed yet: host-10, host-11, host-12, host-13, host-14, host-15, host-16, host-17"
          + " and 12 more"
      ])
  }

  @Test func `waiting without a fleet is refused`() throws {
    let fleet = try FleetBench()
    let answer = fleet("trip", "pay", "--wait", "1s")
    #expect(answer.code == 64)
    #expect(answer.errors.hasPrefix("cbctl: --wait without --fleet: "))
  }

  @Test func `a command that cannot go out says so where it is given, and can be withdrawn`() throws
  {
    let fleet = try FleetBench()
    _ = fleet("force", "pay", "observe", "--fleet")
    let id = try #require(try fleet.relay.pendingCommands().first).id
    try fleet.relay.published([], refusing: [id: "set the clock"])
    let line = try #require(
      fleet("doctor").output.split(separator: "\n").first { $0.contains(" fleet ") })
    #expect(line.hasPrefix("warn "))
    #expect(line.contains("1 command cannot go out (set the clock)"))
    #expect(
      fleet("metrics").output.contains(#"shared_breaker_fleet_refused_commands{fleet="prod"} 1"#))
    #expect(
      fleet("fleet", "withdraw", "pay").output
        == "pay: withdrew 1 command; this host stays as it is until the fleet says otherwise\n")
    #expect(try fleet.pending().isEmpty)
    let again = fleet("fleet", "withdraw", "pay")
    #expect(again.code == 0 && again.errors.contains("nothing to withdraw"))
    #expect(fleet("fleet", "withdraw").code == 64)
    #expect(fleet("fleet", "withdraw", "p*").code == 64)
    #expect(
      fleet("fleet", "withdraw", "pay", "--json").output
        == #"{"fleet":"prod","host":"host-a","name":"pay","withdrawn":0}"# + "\n")
  }

  @Test func `fleet status says which hosts have carried out a command`() throws {
    func lines(_ command: FleetConfirmations.Command) -> [String] {
      NamedConfirmations(name: "pay", confirmations: FleetConfirmations(commands: [command])).lines
    }
    var command = FleetConfirmations.Command(
      aspect: "mode", stamp: 7, host: "host-b", author: "deploy", reason: "drill",
      age: .seconds(90), isTold: true,
      hosts: [
        Host("host-a", .confirmed, silence: .zero), Host("host-b", .pending, silence: .zero),
      ])
    let lead = "pay, mode, 1m 30s ago by deploy on host-b (unverified) (drill): "
    #expect(lines(command) == [lead + "confirmed by 1 of 2 hosts", "  not confirmed yet: host-b"])
    command.winner = "host-c"
    #expect(lines(command) == [lead + "overruled by a later command from host-c"])
    command.winner = nil
    command.refusal = "the clock"
    #expect(lines(command) == [lead + "cannot go out (the clock)"])
    command.refusal = nil
    command.isTold = false
    #expect(lines(command) == [lead + "not told yet"])
  }

  @Test func `a wrong clock is shown from a minute on`() throws {
    #expect(ClockSkew.words(.milliseconds(59_999)) == nil)
    #expect(ClockSkew.words(.zero - .seconds(60)) == "1m behind")
    #expect(ClockSkew.words(.seconds(3_600)) == "1h ahead of")
    let fleet = try FleetBench()
    let document = FleetSamples.document.replacing(
      #""waiting":2"#, with: #""waiting":2,"skew_ms":-90000"#)
    let relay = try FakeRelay(beside: fleet.bench.path, .answers(document))
    let line = fleet("doctor").output.split(separator: "\n").first { $0.contains(" fleet ") }
    #expect(line?.hasPrefix("warn ") == true)
    #expect(line?.contains("; the clock of this host is 1m 30s behind the server's") == true)
    withExtendedLifetime(relay) {}
    var status = FleetSamples.large(hosts: 2)
    status.hosts?[1].skew = .seconds(3_600)
    let text = FleetText(
      status: status, overview: FleetOverview(of: status), now: FleetSamples.now)
    let page = text.page(width: 80, painter: Painter(isOn: false))
    #expect(page.contains("Wrong clocks\n  web-02.example.net: 1h ahead of the server's\n"))
  }

  @Test func `an answer is read back, and an unknown word is no confirmation`() throws {
    let answer = FleetConfirmations(
      commands: [
        .init(
          aspect: "state", stamp: 7, host: "a", author: "x", reason: "r", age: .seconds(1),
          isTold: true, refusal: "no", winner: "b",
          hosts: FleetConfirmations.Standing.allCases.map {
            Host($0.rawValue, $0, why: "w", silence: .seconds(2))
          })
      ], problem: "p")
    #expect(try FleetConfirmations(document: answer.document.text) == answer)
    let text = answer.document.text.replacing(#""standing":"confirmed""#, with: #""standing":"x""#)
    #expect(try FleetConfirmations(document: text).commands[0].hosts[0].standing == .pending)
    #expect(throws: (any Error).self) { try FleetConfirmations(document: "{}") }
  }
}

@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The command `fleet`, and what other commands say about a fleet.
@Suite struct FleetCommandLineTests {
  @Test func `fleet status prints what the relay answers`() throws {
    let fleet = try FleetBench()
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    let pipe = fleet("fleet", "status")
    #expect(pipe.code == 0 && pipe.errors.isEmpty)
    #expect(pipe.output.hasPrefix("HOST    SILENT  NAME      STATE"))
    let terminal = fleet.onTerminal("fleet", "status")
    #expect(terminal.output.hasPrefix("Fleet prod: 4 hosts, 1 silent\n\nNAME      host-a "))
    #expect(
      fleet("fleet", "status", "--json").output.hasPrefix(#"{"fleet":"prod","host":"host-a""#))
    #expect(server.asked.count == 3)
  }

  @Test func `names, patterns and an option choose the breakers of a fleet`() throws {
    let fleet = try FleetBench()
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    func names(_ words: String...) -> Set<Substring> {
      let lines = fleet.bench.run(["fleet", "status"] + words).output.split(separator: "\n")
      return Set(lines.dropFirst().map { $0.split(separator: " ")[2] })
    }
    #expect(names() == ["payments", "mirror", "-"])
    #expect(names("--all") == ["payments", "mirror", "search", "-"])
    #expect(names("search") == ["search", "-"])
    #expect(names("s*", "mirror") == ["search", "mirror", "-"])
    let missing = fleet("fleet", "status", "paymens")
    #expect(
      missing
        == Answer(
          code: 66, output: "", errors: "cbctl: no breaker 'paymens': did you mean 'payments'?\n"))
    let far = fleet("fleet", "status", "nothing-like-it").errors
    #expect(far.contains("run 'cbctl fleet status --all' to list all names"))
    let none = fleet("fleet", "status", "x*")
    #expect(none.code == 0)
    #expect(
      none.errors == "cbctl: nothing that matches 'x*' is open, half-open or in a mode\n")
    // No host describes it, because it is closed and automatic everywhere; this store has it.
    let closed = fleet("fleet", "status", "mail")
    #expect(closed.code == 0)
    #expect(
      closed.errors == "cbctl: nothing that matches 'mail' is open, half-open or in a mode\n")
    #expect(
      fleet.onTerminal("fleet", "status", "mail").output.contains(
        "\nWhat you asked for is closed and automatic on every host.\n"))
    withExtendedLifetime(server) {}
  }

  @Test func `fleet status fails for a store without a fleet`() {
    let bench = CommandBench()
    #expect(bench("fleet", "status").errors.hasPrefix("cbctl: no store yet at "))
    #expect(bench("fleet", "leave", "--yes").code == 69)
    _ = bench("init")
    let answer = bench("fleet", "status", "--json")
    #expect(answer.code == 69 && answer.output.isEmpty)
    #expect(
      answer.errors == "cbctl: no fleet: no relay has worked on \(bench.path): start cbrelay to "
        + "join one\n")
    let left = bench("fleet", "leave", "--yes", "--json")
    #expect(
      left.code == 0
        && left.output == #"{"left":false,"fleet":null,"host":null,"dropped":0}"# + "\n")
    #expect(left.errors == "cbctl: nothing to leave: the store belongs to no fleet\n")
  }

  /// The complaint of `fleet status` when it cannot show the fleet.
  private func complaint(
    _ fleet: FleetBench, document: String, location: SourceLocation = #_sourceLocation
  ) -> String {
    let text = fleet("fleet", "status")
    #expect(text.code == 69 && text.output.isEmpty, sourceLocation: location)
    let json = fleet("fleet", "status", "--json")
    #expect(json.code == 69 && json.errors == text.errors, sourceLocation: location)
    #expect(json.output.contains(document), "\(json.output)", sourceLocation: location)
    #expect(json.output.hasSuffix(#""hosts":[],"commands":[]}"# + "\n"), sourceLocation: location)
    return text.errors.replacing("cbctl: fleet prod cannot be seen: ", with: "")
  }

  @Test func `without a relay, fleet status prints what the store knows`() throws {
    let fleet = try FleetBench()
    _ = fleet("trip", "pay", "--fleet")
    fleet.relay.release()
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    #expect(
      complaint(fleet, document: #""relay":{"running":false,"connected":false,"since":null"#)
        == "the relay of this host does not run, and 1 command waits: start cbrelay\n")
    #expect(server.asked.isEmpty)
  }

  @Test(arguments: [["reset"], ["force", "automatic"], ["policy", "--unset=open-for"]])
  func `a command for a breaker that only other hosts have says where to run it`(
    words: [String]
  ) throws {
    let fleet = try FleetBench()
    let answer = fleet.bench.run([words[0], "ledger"] + words.dropFirst() + ["--fleet"])
    #expect(answer.code == 66)
    #expect(
      answer.errors
        == "cbctl: no breaker 'ledger': this host has none of that name: run the command on a host "
        + "that has it, which 'cbctl fleet status --all' shows\n")
  }

  @Test func `the doctor warns of a relay that hangs`() throws {
    let fleet = try FleetBench()
    func finding(_ patience: Duration? = nil) -> String? {
      let recorder = Recorder()
      var console = recorder.console()
      if let patience { console.relayPatience = patience }
      let answer = fleet.bench.run(["doctor"], on: console, recorder)
      return answer.output.split(separator: "\n").first { $0.contains(" fleet ") }.map(String.init)
    }
    #expect(finding()?.hasPrefix("ok ") == true)
    do {
      let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
      #expect(finding()?.hasSuffix("fleet prod, as host-a: the relay is connected") == true)
      #expect(server.asked == ["figures\n"])
    }
    let server = try FakeRelay(beside: fleet.bench.path, .hangs(after: ""))
    let warning = finding(.milliseconds(100))
    #expect(warning?.hasPrefix("warn ") == true)
    #expect(warning?.contains("is connected; the relay gives no answer") == true)
    withExtendedLifetime(server) {}
  }

  @Test func `a relay that gives no answer is named with the reason`() throws {
    let fleet = try FleetBench()
    #expect(
      complaint(fleet, document: #""running":true,"connected":true"#)
        == "the relay of this host gives no answer (nothing listens at its socket): try again, or "
        + "look at its log\n")
    let server = try FakeRelay(beside: fleet.bench.path, .answers("no\u{1b}[2J"))
    let words = complaint(fleet, document: #""lag_ms":null,"waiting":0,"applied":null"#)
    #expect(words.hasPrefix("the relay of this host gives no answer (its answer cannot be "))
    withExtendedLifetime(server) {}
  }

  @Test func `fleet status shows no hosts without Redis`() throws {
    let fleet = try FleetBench(isConnected: false, problem: "Connection refused")
    _ = fleet("trip", "pay", "--fleet")
    _ = fleet("trip", "pay", "--fleet")
    let server = try FakeRelay(
      beside: fleet.bench.path,
      .answers(
        FleetSamples.document(hosts: "[]", isConnected: false, problem: #""Connection refused""#)))
    let document =
      #""running":true,"connected":false,"since":"2026-09-21T14:13:20.000Z","problem":"#
    #expect(
      complaint(fleet, document: document).hasSuffix(
        " (Connection refused), and 2 commands wait: remove the cause, and it connects by"
          + " itself\n"))
    withExtendedLifetime(server) {}
  }

  @Test func `fleet status fails while Redis does not name the hosts`() throws {
    let fleet = try FleetBench()
    let server = try FakeRelay(
      beside: fleet.bench.path, .answers(FleetSamples.document(hosts: "null")))
    #expect(
      complaint(fleet, document: #""running":true,"connected":true"#)
        == "Redis gives the relay of this host no answer now: try again\n")
    #expect(try value(fleet("metrics"), "hosts") == nil)
    withExtendedLifetime(server) {}
  }

  @Test(arguments: [["leave", "pay"], ["leave", "--all"], ["ajar"], []])
  func `fleet refuses arguments that make no sense`(words: [String]) throws {
    let fleet = try FleetBench()
    #expect(fleet.bench.run(["fleet"] + words).code == 64)
  }

  @Test func `a store leaves its fleet only after a confirmation and without a relay`() throws {
    let fleet = try FleetBench()
    _ = fleet("trip", "pay", "--fleet")
    let running = fleet("fleet", "leave", "--yes")
    #expect(running.code == 1)
    #expect(
      running.errors
        == "cbctl: the store has not left fleet prod: its relay runs: stop cbrelay first\n")
    fleet.relay.release()
    let script = fleet("fleet", "leave")
    #expect(script.code == 64)
    #expect(
      script.errors
        == "cbctl: leaving a fleet: there is no terminal to confirm it at: add --yes\n")
    let asked = Guarded("")
    let refused = fleet.bench.run(["fleet", "leave"]) { question in
      asked.withLock { $0 = question }
      return false
    }
    #expect(refused.code == 1)
    #expect(
      asked.withLock { $0 }
        == "leave fleet prod, and drop 1 command that it has not heard? [y/N] ")
    #expect(fleet("fleet", "status").errors.contains("fleet prod"))
    #expect(
      fleet.bench.run(["fleet", "leave"]) { _ in true }.output
        == "host-a: left fleet prod, and dropped 1 command that it had not heard\n")
    #expect(fleet("fleet", "status").errors.hasPrefix("cbctl: no fleet: "))
    #expect(fleet("status").output.contains("pay   open"))
  }

  @Test func `the history says for which host a relay acted`() throws {
    let fleet = try FleetBench()
    #expect(
      try fleet.relay.apply(
        [.command(fleet.command(.force(.forcedOpen, for: nil), reason: "new disks"))],
        position: nil) == [.applied])
    let text = fleet("history", "pay", "--limit", "1").output
    #expect(text.contains(" for cbctl (pid 9) on host-b (unverified): new disks\n"), "\(text)")
    #expect(
      fleet("history", "--limit", "1", "--json").output.contains(
        #","host":"host-b","given_by":{"user":null,"signed":false,"says":"cbctl (pid 9)"}}"#))
    _ = fleet("force", "pay", "automatic")
    #expect(
      fleet("history", "--limit", "1", "--json").output.contains(#","host":null,"given_by":null}"#))
    #expect(
      fleet("page").output.contains(" for <bdi>cbctl (pid 9) on host-b (unverified)</bdi></td>"))
  }

  @Test func `the page of a breaker says which hosts have suspected it`() throws {
    let fleet = try FleetBench()
    _ = fleet("policy", "pay", "--set", "fleet-quorum=2", "--set", "fleet-spread=10s")
    #expect(
      try fleet.relay.apply([.suspicion(name: "pay", hosts: 3)], position: nil) == [.applied])
    let page = fleet("show", "pay").output
    #expect(page.hasPrefix("pay: half_open, the next call is a probe\n"))
    #expect(page.contains("\n  because       suspected by 3 hosts\n"), "\(page)")
    #expect(page.contains("\n  suspected     2026-09-21T14:13:20.000Z (just now)\n"))
    #expect(fleet("show", "pay", "--json").output.contains(#""suspected_at":"2026-09-21T14:13"#))
    #expect(page.contains("\n  fleet-quorum        2    operator\n"), "\(page)")
    #expect(page.contains("\n  fleet-spread        10s  operator\n"))
  }

  @Test func `status on a terminal ends with a line about a fleet that has trouble`() throws {
    let fleet = try FleetBench()
    #expect(!fleet.onTerminal("status").output.contains("relay"))
    try fleet.relay.note(isConnected: false, problem: "Connection refused")
    fleet.bench.advance(by: 720_000)
    #expect(
      fleet.onTerminal("status").output.hasSuffix(
        "\nfleet prod: this host's relay has not reached it for 12m: see 'cbctl doctor'\n"))
    fleet.relay.release()
    #expect(
      fleet.onTerminal("status").output.hasSuffix(
        "\nfleet prod: the relay of this host does not run: see 'cbctl doctor'\n"))
    #expect(!fleet("status").output.contains("relay"))
    #expect(!fleet.onTerminal("status", "--quiet").output.contains("relay"))
  }

  /// The line of `doctor` about the fleet.
  private func finding(_ fleet: FleetBench) -> String? {
    fleet("doctor").output.split(separator: "\n").map { String($0) }
      .first { $0.split(separator: " ").dropFirst().first == "fleet" }
  }

  @Test func `the doctor reports on the relay of a fleet, and says nothing without a fleet`() throws
  {
    let fleet = try FleetBench()
    #expect(finding(fleet) == "ok    fleet       fleet prod, as host-a: the relay is connected")
    _ = fleet("trip", "pay", "--fleet")
    try fleet.relay.note(isConnected: false, problem: "Connection refused")
    fleet.bench.advance(by: 720_000)
    #expect(
      finding(fleet)?.hasPrefix(
        "warn  fleet       fleet prod, as host-a: the relay has not reached it for 12m (Connection "
          + "refused); 1 command waiting: this host goes on") == true)
    fleet.relay.release()
    #expect(
      finding(fleet)?.hasPrefix(
        "warn  fleet       fleet prod, as host-a: no relay runs; 1 command waiting: this host")
        == true)
    #expect(fleet("doctor").code == 1)
    #expect(fleet("fleet", "leave", "--yes").code == 0)
    #expect(finding(fleet) == nil)
  }

  private func value(_ answer: Answer, _ name: String) throws -> Double? {
    try Exposition(answer.output).values[
      .init(name: "shared_breaker_fleet_\(name)", labels: ["fleet": "prod"])]
  }

  @Test func `the metrics of a fleet come from the store and from the relay`() throws {
    let fleet = try FleetBench()
    _ = fleet("trip", "pay", "--fleet")
    let silent = fleet("metrics")
    #expect(silent.code == 0 && silent.errors.isEmpty)
    #expect(try value(silent, "relay_running") == 1 && value(silent, "connected") == 1)
    #expect(try value(silent, "waiting_commands") == 1)
    #expect(try value(silent, "hosts") == nil && value(silent, "lag_seconds") == nil)
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    let answered = fleet("metrics")
    #expect(try value(answered, "hosts") == 4 && value(answered, "silent_hosts") == 1)
    #expect(try value(answered, "lag_seconds") == 0.003)
    fleet.relay.release()
    let ended = fleet("metrics")
    #expect(try value(ended, "relay_running") == 0 && value(ended, "connected") == 0)
    #expect(try value(ended, "hosts") == nil)
    #expect(server.asked == ["figures\n"])
    _ = fleet("fleet", "leave", "--yes")
    #expect(!fleet("metrics").output.contains("fleet"))
  }

  @Test func `a relay that hangs does not keep the metrics waiting`() throws {
    let fleet = try FleetBench()
    let server = try FakeRelay(beside: fleet.bench.path, .hangs(after: "{"))
    let recorder = Recorder()
    var console = recorder.console()
    console.relayPatience = .milliseconds(100)
    let answer = fleet.bench.run(["metrics"], on: console, recorder)
    #expect(answer.code == 0)
    #expect(try value(answer, "connected") == 1 && value(answer, "hosts") == nil)
    withExtendedLifetime(server) {}
  }

  @Test func `a page has a section about the fleet`() throws {
    let fleet = try FleetBench()
    let alone = fleet("page").output
    #expect(
      alone.contains("<p class=\"note\">Relay of this host: fleet prod cannot be seen: "),
      "\(alone)")
    let server = try FakeRelay(beside: fleet.bench.path, .answers(FleetSamples.document))
    let page = fleet("page").output
    #expect(page.contains("<li>open on 2 of 3 hosts: host-a, host-b</li>"))
    #expect(page.contains("host-d for 12m 30s"))
    withExtendedLifetime(server) {}
  }
}

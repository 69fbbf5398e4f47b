@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Commands that are given to a whole fleet.
@Suite struct FleetScopeTests {
  private static let commands = [
    ["force", "pay", "forced_open"], ["force", "new", "observe"], ["trip", "pay"],
    ["reset", "pay", "mail"], ["reset", "--all", "--yes"], ["policy", "pay", "--set", "probes=3"],
    ["policy", "pay", "--unset-all"], ["hold", "pay", "--end"],
  ]

  private static let refusal =
    "cbctl: nothing was changed: cbrelay does not run on this host: start it, or leave out --fleet "
    + "to act on this host alone\n"

  @Test(arguments: commands)
  func `a command to the fleet without a store creates none`(words: [String]) {
    let bench = CommandBench()
    #expect(bench.run(words + ["--fleet"]) == Answer(code: 69, output: "", errors: Self.refusal))
    #expect(bench.files.isEmpty)
  }

  @Test(arguments: commands)
  func `a command to the fleet changes nothing while no relay runs`(words: [String]) throws {
    let alone = CommandBench()
    for name in ["pay", "mail"] { _ = alone("policy", name, "--set", "probes=2") }
    let fleet = try FleetBench()
    fleet.relay.release()
    for bench in [alone, fleet.bench] {
      let before = bench("status", "--json")
      #expect(bench.run(words + ["--fleet"]) == Answer(code: 69, output: "", errors: Self.refusal))
      #expect(bench("status", "--json") == before)
    }
    #expect(try fleet.pending().isEmpty)
  }

  @Test func `a command to the fleet changes this host at once, and the relay passes it on`() throws
  {
    let fleet = try FleetBench()
    #expect(
      fleet("force", "pay", "forced_open", "--for", "2h", "--reason", "disks", "--fleet")
        == Answer(
          code: 0,
          output: "pay: forced_open for 2h (disks); state: closed; on this host, and on its way to "
            + "the others of fleet prod\n",
          errors: ""))
    #expect(
      fleet("trip", "mail", "--for", "5m", "--fleet").output
        == "mail: open, retry in 5m; on this host, and on its way to the others of fleet prod\n")
    #expect(
      fleet("policy", "pay", "--set", "probes=3", "--unset", "jitter", "--fleet").output.hasSuffix(
        "set by an operator: probes=3; on this host, and on its way to the others of fleet prod\n"))
    #expect(fleet("reset", "mail", "pay", "--fleet").code == 0)
    let pending = try fleet.pending()
    // The reset of mail replaces its trip, which is not passed on any more.
    #expect(pending.map(\.name) == ["pay", "pay", "mail", "pay"])
    #expect(
      pending.map(\.action) == [
        .force(.forcedOpen, for: .seconds(7_200)),
        .policy(set: [.probes: "3"], unset: [.jitter]), .reset, .reset,
      ])
    #expect(pending[0].reason == "disks" && pending[0].author.hasPrefix("cbctl (pid "))
  }

  @Test func `the end of a hold is a command to the fleet, whether or not this host holds`() throws
  {
    let fleet = try FleetBench()
    _ = fleet("hold", "pay", "--for", "2h")
    #expect(
      fleet("hold", "pay", "--end", "--reason", "paid", "--fleet")
        == Answer(
          code: 0,
          output: "pay: closed; on this host, and on its way to the others of fleet prod\n",
          errors: ""))
    let again = fleet("hold", "mail", "--end", "--fleet")
    #expect(again.code == 0 && again.errors == "cbctl: mail: not held on this host\n")
    let pending = try fleet.pending()
    #expect(pending.map(\.name) == ["pay", "mail"])
    #expect(pending.map(\.action) == [.endHold, .endHold])
    #expect(pending[0].reason == "paid")
    let missing = fleet("hold", "none", "--end", "--fleet")
    #expect(missing.code == 66 && missing.errors.contains("this host has none of that name"))
    let usage = fleet("hold", "pay", "--for", "1h", "--fleet")
    #expect(usage.code == 64 && usage.errors.contains("fleet-hold=yes"))
  }

  @Test func `a hold of another host is shown with that host`() throws {
    let fleet = try FleetBench()
    _ = fleet("policy", "pay", "--set", "fleet-hold=yes")
    let hold = FleetHold(left: .seconds(7_200), reason: "HTTP 429")
    _ = try fleet.relay.apply([.hold(name: "pay", host: "host-b", hold)], position: nil)
    #expect(fleet("status", "pay", "--json").output.contains(#""host":"host-b""#))
    #expect(fleet.onTerminal("status").output.contains("(HTTP 429), told by host host-b"))
    #expect(fleet("show", "pay").output.contains("told by       host host-b"))
    #expect(fleet("history", "pay").output.contains("HTTP 429: held for 2h, told by host-b"))
  }

  @Test func `a command announces its giver to the relay before it is given`() throws {
    let fleet = try FleetBench()
    let given = Guarded<[Int]>([])
    let relay = try FakeRelay(beside: fleet.bench.path, .answers("")) { _ in
      let count = try? fleet.pending().count
      given.withLock { $0.append(count ?? -1) }
    }
    _ = fleet("force", "pay", "observe", "--for", "2h", "--reason", "disks", "--fleet")
    _ = fleet("trip", "mail", "--fleet")
    _ = fleet("reset", "pay", "mail", "--fleet")
    _ = fleet("policy", "pay", "--set", "open-for=60s", "--unset", "jitter", "--fleet")
    // A command to this host alone is not announced.
    _ = fleet("trip", "pay")
    let announced = relay.asked.compactMap { line -> FleetGiving? in
      guard case .giving(let giving)? = RelayStatus.Question(words: String(line.dropLast())) else {
        return nil
      }
      return giving
    }
    let pending = try fleet.pending()
    #expect(announced.map(\.names) == [["pay"], ["mail"], ["pay", "mail"], ["pay"]])
    #expect(announced.count == relay.asked.count)
    // The reset of mail replaces its trip.
    #expect(given.withLock { $0 } == [0, 1, 2, 3])
    for command in pending {
      #expect(announced.contains { $0.names.contains(command.name) && $0.announces(command) })
    }
  }

  @Test func `a command to very many breakers announces them in pieces`() throws {
    let names = (0..<10_000).map { "breaker-number-\($0)" }
    let directory = try TemporaryDirectory()
    let path = directory.file("breakers.db")
    let relay = try FakeRelay(beside: path, .answers(""))
    RelayClient.announce(
      .reset, reason: nil, to: names, store: path, atMost: .seconds(60))
    let announced = relay.asked.compactMap { RelayStatus.Question(words: String($0.dropLast())) }
    #expect(announced.count > 3 && announced.count == relay.asked.count)
    #expect(relay.asked.allSatisfy { $0.utf8.count < RelayStatus.Question.longest })
    let told = announced.flatMap { question -> [String] in
      if case .giving(let giving) = question { giving.names } else { [] }
    }
    #expect(told == names)
  }

  @Test func `a command without the option stays on this host`() throws {
    let fleet = try FleetBench()
    #expect(fleet("trip", "pay").output == "pay: open, retry in 30s\n")
    #expect(try fleet.pending().isEmpty)
  }

  @Test func `force to the fleet creates a breaker that this host does not have`() throws {
    let fleet = try FleetBench()
    let answer = fleet("force", "new", "forced_open", "--fleet")
    #expect(answer.errors == "cbctl: new: created, because no breaker had that name\n")
    #expect(try fleet.pending().map(\.name) == ["new"])
  }

  @Test func `no breaker is reset if this host lacks one of them`() throws {
    let fleet = try FleetBench()
    let before = fleet("history", "--json")
    let answer = fleet("reset", "pay", "pya", "--fleet")
    #expect(answer.code == 66)
    #expect(answer.errors == "cbctl: no breaker 'pya': did you mean 'pay'?\n")
    #expect(fleet("history", "--json") == before)
    #expect(try fleet.pending().isEmpty)
  }

  @Test func `the question before all breakers are reset names the fleet`() throws {
    let fleet = try FleetBench()
    let asked = Guarded("")
    let answer = fleet.bench.run(["reset", "--all", "--fleet"]) { question in
      asked.withLock { $0 = question }
      return false
    }
    #expect(answer.code == 1)
    #expect(
      asked.withLock { $0 } == "reset 2 breakers on every host of fleet prod? [y/N] ")
    #expect(try fleet.pending().isEmpty)
  }

  @Test(arguments: [
    ["trip", "pay"], ["policy", "pay", "--set", "probes=4"], ["force", "pay", "observe", "--json"],
  ])
  func `without Redis a command works here, and a note says that the others follow`(
    words: [String]
  ) throws {
    let fleet = try FleetBench(isConnected: false, problem: "Connection\nrefused")
    let answer = fleet.bench.run(words + ["--fleet"])
    #expect(answer.code == 0)
    #expect(
      answer.errors == "cbctl: the relay of this host cannot reach the fleet "
        + #"(Connection\u{a}refused): it tells the other hosts as soon as it can"# + "\n")
    let line = "; on this host, and later on the others of fleet prod\n"
    #expect(answer.output.hasSuffix(line) != words.contains("--json"))
    #expect(try fleet.pending().count == 1)
    #expect(fleet.bench.run(words + ["--fleet", "--quiet"]).errors.isEmpty)
  }

  @Test func `a policy of the whole fleet cannot be shown`() throws {
    let fleet = try FleetBench()
    let answer = fleet("policy", "pay", "--fleet")
    #expect(answer.code == 64)
    #expect(answer.errors.contains("--fleet without a change: every host has a policy of its own"))
  }

  @Test func `an invalid policy is passed on to no other host`() throws {
    let fleet = try FleetBench()
    #expect(fleet("policy", "pay", "--set", "open-max=1s", "--fleet").code == 64)
    #expect(try fleet.pending().isEmpty)
  }
}

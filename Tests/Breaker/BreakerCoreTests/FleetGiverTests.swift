import Testing

@_spi(Relay) @testable import BreakerCore

/// How hosts name the giver of a command.
@Suite struct FleetGiverTests {
  private func words(_ said: String, _ user: String?, isProven: Bool = false) -> String {
    FleetGiver(said: said, verifiedUser: user, isProven: isProven, host: "ops").description
  }

  @Test func `a giver is named with no more than is known`() {
    #expect(words("deploy, via cbctl", nil) == "deploy, via cbctl on ops (unverified)")
    #expect(words("deploy, via cbctl", "deploy") == "deploy on ops (verified there, unsigned)")
    #expect(words("deploy", "deploy", isProven: true) == "deploy on ops (verified)")
    // A giver that claims another name is named with both.
    #expect(
      words("root, via cbctl", "eve", isProven: true) == "eve on ops (verified, as root, via cbctl)"
    )
    #expect(words("deployer", "deploy") == "deploy on ops (verified there, unsigned, as deployer)")
    // Without a verified user there is nothing to prove.
    #expect(!FleetGiver(said: "x", isProven: true, host: "ops").isProven)
    let long = String(repeating: "x", count: 300)
    let cut = FleetGiver(said: long, verifiedUser: long, host: "ops")
    #expect(cut.said.utf8.count == 255 && cut.verifiedUser?.utf8.count == 255)
  }

  private func order(_ user: String?, seals: [String: String] = [:]) -> FleetOrder {
    FleetOrder(
      FleetCommand(
        name: "api", action: .reset, author: "ann", host: "b", stamp: 3, age: .zero, seals: seals,
        verifiedUser: user, isProven: !seals.isEmpty), at: .start)
  }

  @Test func `a host learns the giver of a command, and the proof, later`() {
    var ledger = FleetLedger()
    func giver() -> FleetGiver? { ledger.registers[.state]?.order.giver }
    _ = ledger.heard(order(nil))
    #expect(giver()?.verifiedUser == nil)
    _ = ledger.heard(order("ann"))
    #expect(giver()?.verifiedUser == "ann" && giver()?.isProven == false)
    // Without a proof, the first one counts.
    _ = ledger.heard(order("eve"))
    _ = ledger.heard(order(nil))
    #expect(giver()?.verifiedUser == "ann")
    _ = ledger.heard(order("ann", seals: ["state": "1"]))
    #expect(giver()?.isProven == true)
    // An unsigned command does not replace a signed giver.
    _ = ledger.heard(order("eve"))
    #expect(giver()?.verifiedUser == "ann" && giver()?.isProven == true)
    #expect(ledger.registers[.state]?.order.seals == ["state": "1"])
    // A seal and the user that it proves stay together.
    _ = ledger.heard(order(nil, seals: ["state": "2"]))
    #expect(giver()?.verifiedUser == nil)
    #expect(ledger.registers[.state]?.order.seals == ["state": "2"])
  }

  @Test func `an event that a command causes here names the giver`() {
    for action: FleetCommand.Action in [.trip(for: nil), .reset, .force(.observe, for: nil)] {
      var bench = Bench()
      let command = FleetCommand(
        name: "api", action: action, author: "ann", host: "b", stamp: 3, age: .zero,
        verifiedUser: "ann", isProven: true)
      let policy = BreakerPolicy()
      let done = bench.record.obeyed(
        FleetOrder(command, at: bench.now), isRemembered: false, at: bench.now, policy: policy,
        jitter: 0)
      #expect(done.events.map(\.giver) == [command.giver])
      #expect(done.events.map(\.origin) == ["b"])
    }
  }
}

import Testing
@testable import torture

/// The referee of a fleet, with histories that are made up.
@Suite struct FleetRefereeTests {
  /// Two hosts open their breakers, the third one suspects its own, and each gives a command.
  private static func evidence() -> FleetEvidence {
    var evidence = FleetEvidence(quorum: 2, longestOpening: 1_000)
    evidence.commands = [
      .init("a-1", on: "a", .done), .init("b-1", on: "b", .done), .init("c-1", on: "c", .refused),
    ]
    evidence.hosts = ["a", "b", "c"].map { name in
      var host = FleetEvidence.Host(name)
      host.registers = ["api mode 2 b"]
      host.standing = ["api: observe 'b-1'"]
      host.events = [
        .init(.command, of: "api", "b-1", by: name == "b" ? nil : "b", at: 900),
        name == "c"
          ? .init(.suspected, of: "api", "suspected by 2 hosts", by: nil, at: 520)
          : .init(.opened, of: "api", "3 consecutive failures", by: nil, at: 500),
      ]
      return host
    }
    // The other hosts heard of it after the later one.
    evidence.hosts[0].events.append(.init(.command, of: "api", "a-1", by: nil, at: 899))
    return evidence
  }

  private static func kinds(_ change: (inout FleetEvidence) -> Void) -> [Violation.Kind] {
    var evidence = Self.evidence()
    change(&evidence)
    return FleetReferee.judge(evidence).map(\.kind)
  }

  @Test func `a fleet that keeps its promises has no violations`() {
    #expect(Self.kinds { _ in } == [])
  }

  @Test func `a command that has its effect twice is found`() {
    #expect(Self.kinds { $0.hosts[2].events.append($0.hosts[2].events[0]) } == [.doubleEvent])
  }

  @Test func `a command that is lost on its own host is found`() {
    #expect(Self.kinds { $0.hosts[1].events.removeFirst() } == [.lostEvent])
  }

  @Test func `a command that was refused and has an effect is found`() {
    #expect(
      Self.kinds { $0.hosts[2].events.append(.init(.command, of: "api", "c-1", by: nil, at: 1)) }
        == [.inventedEffect])
  }

  @Test func `an effect of a command that was never given is found`() {
    #expect(
      Self.kinds { $0.hosts[0].events.append(.init(.command, of: "api", "x", by: "b", at: 1)) }
        == [.inventedEffect])
  }

  @Test func `an effect that is said to be of another host is found`() {
    #expect(Self.kinds { $0.hosts[0].events[0].origin = "c" } == [.wrongRow])
  }

  @Test func `hosts that do not agree are found`() {
    #expect(Self.kinds { $0.hosts[2].registers = ["api mode 1 a"] } == [.disagreement])
    #expect(Self.kinds { $0.hosts[2].standing = [] } == [.disagreement])
  }

  @Test func `a breaker that another host opens is found`() {
    let found = Self.kinds { $0.hosts[1].events[1].origin = "a" }
    // It is no evidence for a suspicion either.
    #expect(found == [.openedByOthers, .openedByOthers])
  }

  @Test func `a suspicion that opens a breaker without a probe is found`() {
    let found = Self.kinds {
      $0.hosts[2].events[1] = .init(.opened, of: "api", "suspected by 2 hosts", by: nil, at: 520)
    }
    #expect(found == [.openedByOthers])
    #expect(Self.kinds { $0.hosts[2].events[1].kind = .reopened } == [.openedByOthers])
  }

  @Test func `a probe that fails opens a breaker that was suspected`() {
    for reason in ["the probe failed", "the probe took longer than probe-timeout"] {
      #expect(
        Self.kinds {
          $0.hosts[2].events.append(.init(.reopened, of: "api", reason, by: nil, at: 530))
        } == [])
    }
  }

  @Test func `a suspicion without a quorum is found`() {
    #expect(Self.kinds { $0.hosts[1].events[1].at = 5_000 } == [.openedByOthers])
    #expect(Self.kinds { $0.hosts[1].events[1].name = "db" } == [.openedByOthers])
  }

  @Test func `a breaker that its host trips again is open by itself`() {
    #expect(Self.kinds { $0.hosts[1].events[1].kind = .extended } == [])
    let found = Self.kinds {
      $0.hosts[1].events[1].kind = .extended
      $0.hosts[1].events[1].origin = "a"
    }
    #expect(found == [.openedByOthers])
  }

  @Test func `an effect of a forger without a key is found`() {
    #expect(
      Self.kinds {
        $0.forgeries = ["777"]
        for index in $0.hosts.indices { $0.hosts[index].standing = ["api: max-failures=777"] }
      } == [.inventedEffect, .inventedEffect, .inventedEffect])
    #expect(Self.kinds { $0.forgeries = ["777"] } == [])
  }

  @Test func `a confirmation of what a host has not done is found`() {
    func confirmation(_ isTrue: Bool) -> FleetEvidence.Confirmation {
      .init(of: "api, mode, 2 of b", by: "c", to: "b", isTrue: isTrue)
    }
    #expect(Self.kinds { $0.confirmations = [confirmation(true)] } == [])
    #expect(Self.kinds { $0.confirmations = [confirmation(false)] } == [.falseConfirmation])
  }

  @Test func `a command that is never told and a damaged file are found`() {
    #expect(Self.kinds { $0.hosts[1].waiting = 1 } == [.stuck])
    #expect(Self.kinds { $0.hosts[1].integrity = "row missing" } == [.damage])
  }
}

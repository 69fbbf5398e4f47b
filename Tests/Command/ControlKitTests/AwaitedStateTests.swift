import BreakerCore
import SharedBreaker
import Testing

@testable import ControlKit

struct AwaitedStateTests {
  private static func instant(_ seconds: Double) -> Instant {
    Samples.now.boot.advanced(by: Int64(seconds * 1_000_000_000))
  }

  private static let breakers: [String: BreakerSnapshot] = [
    "closed": Samples.breaker("x", madeSecondsAgo: 9),
    "open": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .open
      $0.openUntil = instant(7)
    },
    "lapsed": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .open
      $0.openUntil = instant(0)
    },
    "probed": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .halfOpen
      $0.leases = [ProbeLease(id: 1, generation: 1, owner: nil, deadline: instant(5))]
    },
    "free": Samples.breaker("x", madeSecondsAgo: 9) { $0.state = .halfOpen },
    "lost": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .halfOpen
      $0.openUntil = instant(0.25)
    },
    "ending": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .halfOpen
      $0.leases = [ProbeLease(id: 1, generation: 1, owner: nil, deadline: instant(0.5))]
    },
    "taken": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .open
      $0.generation = 5
      $0.openUntil = instant(-1)
      $0.leases = [ProbeLease(id: 1, generation: 4, owner: nil, deadline: instant(5))]
    },
    "held": Samples.breaker("x", madeSecondsAgo: 9) {
      $0.mode.mode = .forcedOpen
      $0.mode.until = instant(3)
    },
  ]

  @Test(
    arguments: [
      ("closed", [.closed, .permitted, .free], nil), ("open", [.open, .rejected], 7),
      ("lapsed", [.open, .due, .permitted, .free], nil), ("probed", [.halfOpen, .rejected], 1),
      ("free", [.halfOpen, .due, .permitted, .free], 1), ("ending", [.halfOpen, .rejected], 0.5),
      ("lost", [.halfOpen, .rejected], 0.25),
      ("taken", [.open, .rejected], 1), ("held", [.closed, .rejected], 3),
    ] as [(String, Set<AwaitedState>, Double?)])
  func `wait knows whether a state holds and when time alone may bring it about`(
    kind: String, holding: Set<AwaitedState>, seconds: Double?
  ) throws {
    let snapshot = try #require(Self.breakers[kind])
    #expect(
      Set(AwaitedState.allCases.filter { $0.holds(for: CallOutlook(snapshot: snapshot)) })
        == holding)
    // A wait for room looks at it again and again.
    for state in AwaitedState.allCases where state != .open && !(state == .free && snapshot.permits)
    {
      let byTime = [AwaitedState.due, .permitted, .rejected, .free].contains(state)
      #expect(state.nextLook(at: snapshot) == (byTime ? seconds.map { .seconds($0) } : nil))
    }
  }

  @Test(
    arguments: [
      ("closed", nil), ("open", nil), ("lapsed", nil), ("probed", 5), ("free", nil),
      ("ending", 0.5), ("taken", nil),
    ] as [(String, Double?)])
  func `a wait for open looks again when the time of a probe is over`(
    kind: String, seconds: Double?
  ) throws {
    let snapshot = try #require(Self.breakers[kind])
    #expect(AwaitedState.open.nextLook(at: snapshot) == seconds.map { .seconds($0) })
  }

  @Test func `a wait looks every second at a probe that has an owner`() {
    let snapshot = Samples.breaker("x", madeSecondsAgo: 9) {
      $0.state = .halfOpen
      let owner = ProcessIdentity(pid: 1, startTicks: 1, pidNamespace: 1)
      $0.leases = [ProbeLease(id: 1, generation: 1, owner: owner, deadline: Self.instant(50))]
    }
    #expect(AwaitedState.permitted.nextLook(at: snapshot) == .seconds(1))
  }

  @Test func `a wait for rejected looks again at the deadline of a probe`() {
    let snapshot = Samples.breaker("x", code: "probes=2", madeSecondsAgo: 9) {
      $0.state = .halfOpen
      $0.leases = [ProbeLease(id: 1, generation: 1, owner: nil, deadline: Self.instant(0.5))]
    }
    #expect(snapshot.permits)
    #expect(AwaitedState.rejected.nextLook(at: snapshot) == .seconds(0.5))
  }
}

import SharedBreaker
import Testing
import TortureReferee

@Suite struct `A plan of the torture` {
  private func plans(seed: UInt64) -> [Plan] {
    (0..<50).map { Plan(seed: seed, number: $0, mayFillDisks: true) }
  }

  @Test func `is the same for the same seed, and another for another`() {
    let texts = plans(seed: 1).map { "\($0)" }
    #expect(plans(seed: 1).map { "\($0)" } == texts)
    #expect(plans(seed: 2).map { "\($0)" } != texts)
  }

  @Test func `has each kind of fault in its turn, and fills no disk that it may not`() {
    let kinds = Set(plans(seed: 3).map(\.kind))
    #expect(kinds == Set(Plan.Kind.allCases))
    #expect(!(0..<50).contains { Plan(seed: 3, number: $0, mayFillDisks: false).kind.fillsDisk })
  }

  @Test func `has a policy that can be used, and 4 to 12 processes for 2 to 6 seconds`() throws {
    for plan in plans(seed: 4) {
      let policy = try BreakerPolicy(words: plan.policy.words)
      try policy.validate()
      #expect(policy.probes == plan.policy.probes)
      #expect((4...12).contains(plan.workers.count + plan.commanders))
      #expect((2_000...6_000).contains(plan.milliseconds))
      #expect(plan.faults.allSatisfy { (0..<plan.milliseconds).contains($0.at) })
    }
  }
}

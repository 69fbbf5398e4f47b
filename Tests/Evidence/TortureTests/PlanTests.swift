import SharedBreaker
import Testing
@testable import torture

/// The plans of the torture.
@Suite struct PlanTests {
  private func plans(seed: UInt64) -> [Plan] {
    (0..<50).map { Plan(seed: seed, number: $0, mayFillDisks: true) }
  }

  @Test func `a plan is the same for the same seed and differs for another`() {
    let texts = plans(seed: 1).map { "\($0)" }
    #expect(plans(seed: 1).map { "\($0)" } == texts)
    #expect(plans(seed: 2).map { "\($0)" } != texts)
  }

  @Test func `the plans have each kind of fault in turn and fill no disk that they may not`() {
    let kinds = Set(plans(seed: 3).map(\.kind))
    #expect(kinds == Set(Plan.Kind.allCases))
    #expect(!(0..<50).contains { Plan(seed: 3, number: $0, mayFillDisks: false).kind.fillsDisk })
  }

  @Test func `a plan has a usable policy and 4 to 12 processes for 2 to 6 seconds`() throws {
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

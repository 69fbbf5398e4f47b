import BreakerCore
import Testing

@Suite struct CallOutcomeTests {
  @Test func `a failure of any kind is a failure, and no other outcome is`() {
    for failure in [
      CallOutcome.failure(), .permanentFailure(), .failure(opensFor: .seconds(1)),
    ] {
      #expect(failure.isFailure)
    }
    #expect(!CallOutcome.success.isFailure)
    #expect(!CallOutcome.ignored.isFailure)
  }
}

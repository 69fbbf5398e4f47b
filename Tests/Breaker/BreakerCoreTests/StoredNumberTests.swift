import Testing

@testable import BreakerCore

/// Numbers that are stored in files and names that are printed in JSON, which never change.
@Suite struct StoredNumberTests {
  @Test(arguments: [
    (BreakerState.closed, 0, "closed"), (.open, 1, "open"), (.halfOpen, 2, "half_open"),
  ])
  func `the number and the name of a state never change`(
    state: BreakerState, number: Int, name: String
  ) {
    #expect(state.rawValue == number)
    #expect(state.wireName == name)
    #expect("\(state)" == name)
    #expect(BreakerState(wireName: name) == state)
  }

  @Test(arguments: [
    (BreakerMode.automatic, 0, "automatic"), (.forcedOpen, 1, "forced_open"),
    (.forcedClosed, 2, "forced_closed"), (.observe, 3, "observe"),
  ])
  func `the number and the name of a mode never change`(
    mode: BreakerMode, number: Int, name: String
  ) {
    #expect(mode.rawValue == number)
    #expect(mode.wireName == name)
    #expect("\(mode)" == name)
    #expect(BreakerMode(wireName: name) == mode)
  }

  @Test(arguments: [
    (BreakerChange.Kind.transition, 0, "transition"), (.mode, 1, "mode"), (.reset, 2, "reset"),
    (.policy, 3, "policy"), (.deletion, 4, "deletion"), (.probe, 5, "probe"),
    (.extended, 6, "extension"), (.recovery, 7, "recovery"),
    (.suspicion, 8, "suspicion"), (.hold, 9, "hold"),
  ])
  func `the number and the name of a kind of event never change`(
    kind: BreakerChange.Kind, number: Int, name: String
  ) {
    #expect(kind.rawValue == number)
    #expect(kind.wireName == name)
  }

  @Test func `no stored number or printed name exists beyond the known ones`() {
    #expect(BreakerState.allCases.count == 3)
    #expect(BreakerMode.allCases.count == 4)
    #expect(BreakerChange.Kind.allCases.count == 10)
    #expect(Reporter.Evidence.allCases.map(\.rawValue) == [0, 1])
    #expect(BreakerState(wireName: "halfOpen") == nil)
    #expect(BreakerMode(wireName: "") == nil)
    #expect([PermitKind.normal, .probe].map(\.wireName) == ["normal", "probe"])
    #expect(LastCallsWindow.failureFlag == 1)
    #expect(LastCallsWindow.slowFlag == 2)
    #expect(PermitGrant.unjudged == 0)
    #expect(BreakerRecord().generation == 1)
  }
}

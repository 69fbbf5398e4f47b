import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

@Suite struct StateTallyTests {
  private func seconds(_ snapshot: BreakerSnapshot?) throws -> [Double] {
    let times = try #require(snapshot).timeInStates
    return [times.closed, times.open, times.halfOpen].map { $0 / .seconds(1) }
  }

  private func transitions(_ snapshot: BreakerSnapshot?) throws -> [Int64] {
    let counts = try #require(snapshot).transitions
    return [counts.closed, counts.open, counts.halfOpen]
  }

  @Test(.timeLimit(.minutes(60)))
  func `the time in each state is shared by all processes`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=30s")
    stage.clock.advance(by: .seconds(100))
    #expect(try puppets[0].ask("run fail") == "failed")
    // Far shorter than the time between two looks.
    stage.clock.advance(by: .milliseconds(250))
    #expect(try puppets[1].ask("reset") == "ok")
    stage.clock.advance(by: .seconds(5))
    let store = stage.sharedStore()
    let breaker = try #require(try store.existingBreaker("api"))
    for snapshot in [try store.snapshot(of: "api"), breaker.snapshot(), try store.snapshots()[0]] {
      #expect(try seconds(snapshot) == [105, 0.25, 0])
      #expect(try transitions(snapshot) == [1, 1, 0])
      #expect(snapshot?.timeInState == .seconds(5))
    }
  }

  @Test func `the time in each state is counted in memory too`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.reset()
    host.clock.advance(by: .seconds(3))
    try breaker.trip()
    host.clock.advance(by: .seconds(31))
    try breaker.run {}
    #expect(try seconds(breaker.snapshot()) == [3, 31, 0])
    #expect(try transitions(breaker.snapshot()) == [1, 1, 1])
  }

  @Test func `the time in each state is written only by a change of state`() throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("api", policy: .init(maxFailures: 9))
    try breaker.reset()
    // A failure that wrote these columns would overwrite these values.
    let row = "SELECT closed_ns, to_open, state_since_ns FROM breaker"
    try Database.rows(stage.store, "UPDATE breaker SET closed_ns = 7, to_open = 8")
    let before = try Database.rows(stage.store, row)
    stage.clock.advance(by: .seconds(1))
    for _ in 0..<3 { try breaker.acquire().fail() }
    try breaker.force(.observe)
    #expect(try Database.rows(stage.store, row) == before)
    try breaker.trip()
    #expect(try transitions(breaker.snapshot()) == [0, 9, 0])
  }

  @Test(arguments: [0, 31_536_000, -31_536_000])
  func `the time in each state does not depend on the wall clock`(jump: Int) throws {
    let stage = try Stage()
    try stage.sharedStore().breaker("api").trip(for: .seconds(1_000))
    stage.clock.advance(by: .seconds(10))
    stage.clock.moveWall(by: .seconds(jump))
    let store = stage.sharedStore()
    #expect(try seconds(store.snapshot(of: "api")) == [0, 10, 0])
    try store.breaker("api").reset()
    #expect(try seconds(store.snapshot(of: "api")) == [0, 10, 0])
  }

  @Test
  func `the time in each state goes on after a reboot, whatever the wall clock then says`() throws {
    let stage = try Stage()
    let first = stage.sharedStore()
    for name in ["idle", "busy"] { try first.breaker(name).reset() }
    stage.clock.advance(by: .seconds(100))
    first.close()
    // The host is off for 20 s and up for one, and then for five more.
    stage.clock.reboot(after: .seconds(20))
    stage.clock.advance(by: .seconds(5))
    let second = stage.sharedStore()
    #expect(try seconds(second.snapshot(of: "idle")) == [119 + 6, 0, 0])
    stage.clock.moveWall(by: .seconds(-3_600))
    let third = stage.sharedStore()
    #expect(try seconds(third.snapshot(of: "idle")) == [125, 0, 0])
    stage.clock.advance(by: .seconds(5))
    let busy = try third.breaker("busy", policy: .init(maxFailures: 1))
    try busy.acquire().fail()
    #expect(try seconds(third.snapshot(of: "busy")) == [130, 0, 0])
    stage.clock.advance(by: .seconds(1))
    #expect(try seconds(third.snapshot(of: "busy")) == [130, 1, 0])
    #expect(try seconds(third.snapshot(of: "idle")) == [131, 0, 0])
  }

  @Test func `the time in each state ends with the breaker and not with its history`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    for _ in 0..<700 {
      try breaker.trip()
      try breaker.reset()
    }
    stage.clock.advance(by: .seconds(1))
    #expect(try transitions(breaker.snapshot()) == [700, 700, 0])
    #expect(try store.delete("api"))
    try breaker.reset()
    #expect(try transitions(breaker.snapshot()) == [0, 0, 0])
    #expect(try seconds(breaker.snapshot()) == [0, 0, 0])
  }

  @Test(.timeLimit(.minutes(60)))
  func `the tally of past states never goes back while other processes write`() throws {
    let stage = try Stage()
    let writer = stage.sharedStore()
    let breaker = try writer.breaker("api", policy: .init(maxFailures: 1, openFor: .seconds(1)))
    try breaker.reset()
    let threads = Threads()
    let count = rounds(2_000)
    threads.start {
      for round in 0..<count {
        stage.clock.advance(by: .milliseconds(round % 700))
        _ = try? breaker.run { throw SupportError("down") }
        if round % 5 == 0 { try? breaker.run {} }
      }
    }
    let store = stage.sharedStore()
    var before = try store.snapshot(of: "api")
    for _ in 0..<count {
      let now = try store.snapshot(of: "api")
      for state in BreakerState.allCases {
        let earlier = try #require(before)
        let later = try #require(now)
        #expect(later.transitions[state] >= earlier.transitions[state])
        // A later state may have cut short the time that the current one adds.
        guard earlier.state != state else { continue }
        #expect(later.timeInStates[state] >= earlier.timeInStates[state])
      }
      before = now
    }
    threads.join()
    #expect(try store.snapshot(of: "api")?.transitions == breaker.snapshot().transitions)
  }
}

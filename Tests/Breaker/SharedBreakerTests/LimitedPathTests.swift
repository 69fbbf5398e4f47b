import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// Calls under a limit that are permitted from memory, and changes while their work runs.
@Suite struct LimitedPathTests {
  enum Meanwhile: CaseIterable {
    case limitRaised, limitLowered, limitRemoved, policyChanged
    case tripped, reset, observed, deleted, createdAgain
    case storeClosed, slotsDeleted, storeReplaced
  }

  private static let policy = BreakerPolicy(maxFailures: 9, maxConcurrent: 2)

  @Test(.timeLimit(.minutes(60)), arguments: Meanwhile.allCases, [false, true])
  func `a call gives its room back whatever happens while its work runs`(
    meanwhile: Meanwhile, isFailing: Bool
  ) throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: Self.policy)
    for _ in 0..<2 { try breaker.run {} }
    do {
      let answer = try breaker.run {
        #expect(try stage.sharedStore().snapshot(of: "api")?.limit?.unitsInUse == 1)
        try meanwhile.happen(to: breaker, of: store, on: stage)
        if isFailing { throw SupportError("refused") }
        return 42
      }
      #expect(answer == 42 && !isFailing)
    } catch is SupportError {
      #expect(isFailing)
    }
    // Another process looks, which knows only the store.
    let other = stage.sharedStore()
    let later = try other.breaker("api", policy: Self.policy)
    try later.force(.automatic)
    try later.reset()
    try later.overridePolicy(set: [.maxConcurrent: "2"])
    #expect(try other.snapshot(of: "api")?.limit?.unitsInUse == 0)
    try later.claiming(units: 2).run {}
    if meanwhile != .storeClosed { try breaker.claiming(units: 2).run {} }
    #expect(try other.snapshot(of: "api")?.totals.lostCalls == 0)
  }

  @Test
  func `a call inside of one that failed, or of one of another breaker, is inside of the rest`()
    async throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 9, maxConcurrent: 1))
    let other = try store.breaker("disk", policy: BreakerPolicy(maxFailures: 9, maxConcurrent: 1))
    for each in [breaker, other] { for _ in 0..<2 { try await each.run {} } }
    func unitsInUse() -> [Int?] {
      [breaker.snapshot().limit?.unitsInUse, other.snapshot().limit?.unitsInUse]
    }
    func failInside() {
      #expect(throws: SupportError.self) { try breaker.run { throw SupportError("refused") } }
      #expect(throws: SupportError.self) {
        try other.run { try breaker.run { try other.run { throw SupportError("refused") } } }
      }
    }
    try await breaker.run {
      failInside()
      #expect(unitsInUse() == [1, 0])
      try breaker.claiming(units: 9).run { #expect(unitsInUse() == [1, 0]) }
      try other.run { try breaker.run { #expect(unitsInUse() == [1, 1]) } }
    }
    #expect(unitsInUse() == [0, 0])
    // A call of a thread inside of one of a task, which may have gone to another thread meanwhile.
    try await breaker.run { () async throws in
      for _ in 0..<9 {
        await Task.yield()
        failInside()
        try await breaker.run { #expect(unitsInUse() == [1, 0]) }
        try await other.run { try breaker.run { #expect(unitsInUse() == [1, 1]) } }
      }
      // A detached task is not inside.
      await #expect(throws: BreakerError.self) {
        try await Task.detached { try breaker.run {} }.value
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<9 {
          group.addTask { try breaker.run { #expect(unitsInUse() == [1, 0]) } }
        }
        try await group.waitForAll()
      }
    }
    #expect(unitsInUse() == [0, 0])
  }

  @Test(.timeLimit(.minutes(60)))
  func `a child that is forked inside of a call neither ends nor counts it`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 lost-calls=failure max-failures=1")
    for _ in 0..<2 { #expect(try puppets[0].ask("run") == "ok 42") }
    for depth in 1...2 { #expect(try puppets[0].ask("run-forked \(depth)") == "ok") }
    #expect(try puppets[1].ask("run") == "ok 42")
    let shown = try #require(try stage.sharedStore().snapshot(of: "api"))
    #expect(shown.limit?.unitsInUse == 0)
    #expect(shown.totals.successes == 5 && shown.totals.lostCalls == 0)
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
  }
}

extension LimitedPathTests.Meanwhile {
  fileprivate func happen(to breaker: Breaker, of store: SharedStore, on stage: Stage) throws {
    // By another process, as most changes of a breaker.
    let other = try stage.sharedStore().breaker("api")
    switch self {
    case .limitRaised: try other.overridePolicy(set: [.maxConcurrent: "9"])
    case .limitLowered: try other.overridePolicy(set: [.maxConcurrent: "1"])
    case .limitRemoved: try other.overridePolicy(set: [.maxConcurrent: "none"])
    case .policyChanged:
      try other.overridePolicy(set: [.window: "1m", .slowAfter: "1s", .slowRate: "50%"])
    case .tripped: try other.trip()
    case .reset: try other.reset()
    case .observed: try other.force(.observe)
    case .deleted: #expect(try stage.sharedStore().delete("api"))
    case .createdAgain:
      #expect(try stage.sharedStore().delete("api"))
      try stage.sharedStore().breaker("api", policy: LimitedPathTests.policy).run {}
    case .storeClosed: store.close()
    case .slotsDeleted:
      Files.removeAll(stage.store + "-slots")
      stage.clock.advance(by: .seconds(2))
      try breaker.run {}
      try other.run {}
    case .storeReplaced:
      for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
      stage.clock.advance(by: .seconds(2))
      try breaker.run {}
      try other.run {}
    }
  }
}

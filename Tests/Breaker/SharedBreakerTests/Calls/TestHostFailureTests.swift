import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A test host whose store fails and works again.
@Suite(.timeLimit(.minutes(60))) struct TestHostFailureTests {
  private let host = TestHost()
  private let told = Notes<String>()

  private func store(_ action: StoreFailureAction = .continueLocally) -> SharedStore {
    host.process().store(onStoreFailure: action) { [told] event in
      switch event {
      case .unavailable(let error): told.note("unavailable \(error.kind)")
      case .available: told.note("available")
      case .notShared(let name, let error): told.note("not shared \(name) \(error.kind)")
      case .notDurable, .transition, .transitionAlone, .rejected, .policyDiffers, .hookGaveUp: break
      }
    }
  }

  @Test(arguments: [StoreError.Kind.inputOutput, .busy, .diskFull, .permissionDenied])
  func `a failing store is reported once and comes back by itself`(kind: StoreError.Kind) throws {
    let store = store()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3))
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    host.failStore(with: kind)
    for _ in 0..<2 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
    guard case .unavailable(let error) = store.health else {
      Issue.record("\(store.health)")
      return
    }
    #expect(error.kind == kind)
    #expect(told.entries == ["unavailable \(kind)"])
    #expect(breaker.state == .open, "it goes on with what was known")
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .seconds(1))
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.repairStore()
    host.clock.advance(by: .seconds(1))
    try breaker.run {}
    #expect(store.health == .connected)
    #expect(told.entries == ["unavailable \(kind)", "available"])
    #expect(breaker.state == .closed)
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test(arguments: [
    (CallOutcome.success, PermitKind?.some(.normal)), (.failure(CallOutcome.Failure()), nil),
    (.ignored, .probe),
  ])
  func `the outcome of a probe that ended while the store failed is written later`(
    outcome: CallOutcome, next: PermitKind?
  ) throws {
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(60), probeTimeout: .seconds(3_600))
    let breaker = try store().breaker("api", policy: policy)
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    host.clock.advance(by: .seconds(60))
    let probe = try breaker.acquire()
    #expect(probe.kind == .probe)
    host.failStore(with: .busy)
    #expect(probe.report(outcome) == .counted)
    host.clock.advance(by: .seconds(1))
    _ = try? breaker.acquire()
    host.repairStore()
    host.clock.advance(by: .seconds(1))
    #expect((try? breaker.acquire())?.kind == next)
    let failures = next == nil ? 2 : 1
    #expect(breaker.snapshot().totals.failures == failures)
  }

  @Test(arguments: [StoreError.Kind.busy, .diskFull, .readOnly, .inputOutput])
  func `a failure to write leaves a store readable and an input-output error does not`(
    kind: StoreError.Kind
  ) throws {
    let store = store()
    try store.breaker("api").trip()
    host.failStore(with: kind)
    #expect(throws: BreakerError.self) { try store.breaker("api").reset() }
    if kind == .inputOutput {
      #expect(throws: StoreError.self) { try store.snapshot(of: "api") }
    } else {
      #expect(try store.snapshot(of: "api")?.state == .open)
      try store.connect()
    }
  }

  @Test func `a failing store permits, rejects or throws as its options say`() throws {
    let stores = [StoreFailureAction.permit, .reject, .throw].map { store($0) }
    for store in stores {
      _ = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1)).acquire().fail()
      try store.breaker("api").reset()
    }
    host.failStore()
    for store in stores {
      // Reporting the failure reveals that the store fails.
      _ = try? store.breaker("api").acquire().fail()
    }
    try stores[0].breaker("api").run {}
    let rejected = #expect(throws: BreakerError.self) { try stores[1].breaker("api").run {} }
    #expect(rejected?.rejection != nil)
    let thrown = #expect(throws: BreakerError.self) { try stores[2].breaker("api").run {} }
    #expect(thrown?.rejection == nil)
  }

  @Test func `a store without room for another breaker keeps the ones that it has`() throws {
    let store = store()
    let breaker = try store.breaker("old", policy: BreakerPolicy(maxFailures: 1))
    host.failStore(with: .tooManyBreakers)
    let new = try store.breaker("new", policy: BreakerPolicy(maxFailures: 1))
    #expect(throws: Refused.self) { try new.run { throw Refused() } }
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    #expect(told.entries == ["not shared new tooManyBreakers"])
    #expect(store.health == .connected)
    #expect(try host.store().names() == ["old"])
    host.repairStore()
    host.clock.advance(by: .seconds(1))
    #expect(throws: Refused.self) { try new.run { throw Refused() } }
    #expect(try host.store().names() == ["new", "old"])
  }

  @Test func `a history feed resumes once the store can be read again`() async throws {
    let store = store()
    let breaker = try store.breaker("api")
    var feed = store.followHistory(after: 0).makeAsyncIterator()
    try breaker.trip()
    #expect(await feed.next()?.change.wireTo == "open")
    host.failStore()
    let listening = Task { [feed] in
      var feed = feed
      return await feed.next()?.change.wireTo
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(2))
    host.repairStore()
    host.clock.advance(by: .seconds(2))
    try host.store().breaker("api").reset()
    #expect(await listening.value == "closed")
  }
}

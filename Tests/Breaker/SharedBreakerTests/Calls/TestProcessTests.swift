import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// The processes of a test host.
@Suite(.timeLimit(.minutes(60))) struct TestProcessTests {
  private let host = TestHost()

  @Test func `each process counts as one of the reporters that a policy requires`() throws {
    let policy = BreakerPolicy(maxFailures: 2, reporters: 3)
    let breakers = try (0..<3).map { _ in
      try host.process().store().breaker("api", policy: policy)
    }
    for breaker in breakers.dropLast() {
      for _ in 0..<3 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
      #expect(breaker.state == .closed)
    }
    #expect(throws: Refused.self) { try breakers[2].run { throw Refused() } }
    #expect(breakers.map(\.state) == [.open, .open, .open])
  }

  @Test func `several stores of one process count as one reporter`() throws {
    let policy = BreakerPolicy(maxFailures: 1, reporters: 2)
    let process = host.process()
    for store in [process.store(), process.store(), process.store()] {
      let breaker = try store.breaker("api", policy: policy)
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    }
    #expect(try host.store().breaker("api").state == .closed)
    let other = try TestHost().store().breaker("api", policy: policy)
    for _ in 0..<3 { #expect(throws: Refused.self) { try other.run { throw Refused() } } }
    #expect(other.state == .closed, "the stores of a host are of one process")
  }

  @Test func `the history and the leases name the process that acted`() throws {
    let worker = host.process(program: "worker")
    let other = host.process(program: "other")
    #expect(worker.pid != other.pid)
    let breaker = try worker.store().breaker("api")
    try breaker.trip()
    try other.store().breaker("api").force(.forcedClosed)
    let history = try host.store(program: "viewer").history(of: "api")
    #expect(history.map(\.program) == ["worker", "other"])
    #expect(history.map(\.pid) == [worker.pid, other.pid])
    #expect(try host.store().snapshot(of: "api")?.modeSetBy == "other (pid \(other.pid))")
    try breaker.force(.automatic)
    host.clock.advance(by: .seconds(30))
    let permit = try breaker.acquire()
    let leases = try host.store().snapshot(of: "api")?.leases
    #expect(leases?.map(\.ownerPid) == [worker.pid])
    #expect(leases?.map(\.isOwnerGone) == [false])
    permit.succeed()
    try host.store(program: "operator").breaker("db").trip()
    #expect(try host.store().history(of: "db").map(\.program) == ["operator"])
  }

  @Test func `a killed process leaves the slot of its probe to the next caller`() throws {
    let prober = host.process()
    let breaker = try openAndDue()
    let permit = try prober.store().breaker("api").acquire()
    #expect(throws: BreakerError.self) { try breaker.run {} }
    prober.kill()
    prober.kill()
    #expect(!prober.isRunning)
    #expect(breaker.snapshot().leases.map(\.isOwnerGone) == [true])
    #expect(breaker.snapshot().permits)
    try breaker.run {}
    #expect(breaker.state == .closed)
    let verdict = permit.fail()
    #expect(verdict == .refused)
    #expect(breaker.snapshot().totals.failures == 0)
  }

  @Test func `a token's slot is freed when the process that it ends with is killed`() throws {
    let owner = host.process()
    let breaker = try openAndDue()
    _ = try breaker.acquireToken(endingWith: owner.pid)
    #expect(throws: BreakerError.self) { try breaker.run {} }
    owner.kill()
    #expect(throws: BreakerError.noSuchProcess(owner.pid)) {
      try breaker.acquireToken(endingWith: owner.pid)
    }
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `the calls that a killed process has made are all counted`() throws {
    let worker = host.process()
    let breaker = try worker.store().breaker("api", policy: BreakerPolicy(maxFailures: 100))
    for _ in 0..<5 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
    for _ in 0..<7 { try breaker.run {} }
    worker.kill()
    let totals = try host.store().snapshot(of: "api")?.totals
    #expect(totals?.failures == 5)
    #expect(totals?.successes == 7)
  }

  @Test(arguments: [StoreFailureAction.continueLocally, .permit, .reject, .throw])
  func `a killed process runs no calls, whatever its store failure action`(
    action: StoreFailureAction
  ) throws {
    let worker = host.process()
    let store = worker.store(onStoreFailure: action)
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.run {}
    let permit = try breaker.acquire()
    worker.kill()
    for _ in 0..<2 {
      let error = #expect(throws: BreakerError.self) {
        try breaker.run { Issue.record("the work was run") }
      }
      guard case .store(let cause) = error else {
        Issue.record("it was not the store that was at fault")
        continue
      }
      #expect(cause.description.contains("process \(worker.pid) of the test host has ended"))
    }
    #expect(throws: StoreError.self) { try store.connect() }
    #expect(throws: StoreError.self) { try store.history() }
    #expect(throws: BreakerError.self) { try breaker.trip() }
    let verdict = permit.fail()
    #expect(verdict == .refused)
    #expect(breaker.state == .closed)
    #expect(try host.store().breaker("api").state == .closed)
    #expect(try host.store().snapshot(of: "api")?.totals.failures == 0)
  }

  @Test func `a killed process leaves its history hook to another process`() async throws {
    let breaker = try host.store().breaker("api")
    let victim = host.process()
    let work = HungWork()
    let hung = Notes<Int64>()
    let store = victim.store()
    try store.registerHook("pager")
    try breaker.trip()
    let dying = Task {
      await store.handleHistory(as: "pager") { entry in
        hung.note(entry.id)
        await work.hang()
      }
    }
    await until { hung.count > 0 }
    let handled = Notes<Int64>()
    let heirs = host.process().store()
    let inheriting = Task {
      await heirs.handleHistory(as: "pager") { handled.note($0.id) }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    #expect(handled.count == 0)
    victim.kill()
    await until { handled.count > 0 }
    #expect(handled.entries.first == hung.entries.first)
    work.release()
    for task in [dying, inheriting] {
      task.cancel()
      await task.value
    }
  }

  @Test func `a hook handles all that happens after it was registered, and only that`() async throws
  {
    let store = host.store()
    let breaker = try store.breaker("api")
    try breaker.trip()
    try store.registerHook("pager")
    try breaker.reset()
    // Registering it again, in any process, forgets nothing.
    try host.process().store().registerHook("pager")
    try breaker.trip()
    let handled = Notes<BreakerState?>()
    let hook = Task {
      await store.handleHistory(as: "pager") { handled.note($0.change.stateAfter) }
    }
    await until { handled.count == 2 }
    #expect(handled.entries == [.closed, .open])
    hook.cancel()
    await hook.value
  }

  @Test func `a hook that cannot be registered says why`() throws {
    let store = host.store()
    host.failStore(with: .diskFull)
    let error = #expect(throws: StoreError.self) { try store.registerHook("pager") }
    #expect(error?.kind == .diskFull)
    host.repairStore()
    try store.registerHook("pager")
  }

  /// A breaker whose next call is its probe.
  private func openAndDue() throws -> Breaker {
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.trip(for: .seconds(30))
    host.clock.advance(by: .seconds(30))
    return breaker
  }
}

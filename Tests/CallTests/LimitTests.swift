import BreakerStore
import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Breakers that limit how many calls may be under way.
@Suite(.timeLimit(.minutes(60))) struct LimitTests {
  private let host = TestHost()

  private func breaker(
    _ policy: BreakerPolicy, in process: TestProcess? = nil
  ) throws -> Breaker {
    let breaker = try (process?.store() ?? host.store()).breaker("gpu", policy: policy)
    // The first call creates the breaker.
    try breaker.run {}
    return breaker
  }

  private func isBusy(_ breaker: Breaker) -> Bool {
    do throws(BreakerError) {
      breaker.end(try breaker.acquire())
      return false
    } catch {
      return error.rejection?.cause == .busy
    }
  }

  @Test func `as many calls as the limit allows are under way on the whole host`() throws {
    let policy = BreakerPolicy(maxConcurrent: 3)
    let breakers = try (0..<3).map { _ in try breaker(policy, in: host.process()) }
    var permits = try (0..<3).map { try breakers[$0].acquire().shared() }
    for breaker in breakers { #expect(isBusy(breaker)) }
    permits.removeFirst().succeed()
    permits.append(try breakers[2].acquire().shared())
    #expect(isBusy(breakers[0]))
    permits.removeFirst().fail()
    #expect(!isBusy(breakers[0]))
    // One that is dropped gives its room back, too.
    permits.removeAll()
    for _ in 0..<3 { permits.append(try breakers[1].acquire().shared()) }
    #expect(isBusy(breakers[1]))
  }

  @Test func `a busy breaker says so, and has neither failed nor opened`() throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1, maxConcurrent: 1))
    let permit = try breaker.acquire()
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.cause == .busy)
    #expect(error?.rejection?.state == .closed)
    #expect(error?.retryAfter == nil)
    #expect(
      error?.description
        == "gpu is rejecting calls: as many calls are under way as its max-concurrent permits: "
        + "try again later")
    permit.succeed()
    #expect(breaker.state == .closed)
    let totals = breaker.snapshot().totals
    #expect(totals.busy == 1 && totals.rejections == 0)
    #expect(totals.failures == 0 && totals.successes == 2)
  }

  @Test func `work gives its room back however it ends`() async throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 100, maxConcurrent: 1))
    for _ in 0..<3 {
      try breaker.run { #expect(breaker.snapshot().limit?.unitsInUse == 1) }
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
      try await breaker.run { () async throws in
        #expect(breaker.snapshot().limit?.unitsInUse == 1)
      }
      await #expect(throws: Refused.self) {
        try await breaker.run { () async throws in throw Refused() }
      }
      await #expect(throws: CallTimedOut.self) {
        try await breaker.run(timeout: .zero) { try await Task.sleep(for: .seconds(600)) }
      }
    }
    #expect(!isBusy(breaker))
  }

  @Test
  func `a killed process leaves its room to others, and its calls count if the policy says so`()
    throws
  {
    for (lostCalls, failures) in [(BreakerPolicy.LostCalls.failure, Int64(2)), (.ignored, 0)] {
      let host = TestHost()
      let policy = BreakerPolicy(maxFailures: 2, maxConcurrent: 2, lostCalls: lostCalls)
      let worker = host.process()
      let other = try worker.store().breaker("gpu", policy: policy)
      try other.run {}
      let permits = [try other.acquire().shared(), try other.acquire().shared()]
      let breaker = try host.store().breaker("gpu", policy: policy)
      #expect(isBusy(breaker))
      worker.kill()
      // Whoever finds the room also finds the calls.
      _ = isBusy(breaker)
      let totals = breaker.snapshot().totals
      #expect(totals.failures == failures && totals.ignored >= 2 - failures)
      #expect(totals.lostCalls == 2)
      #expect(breaker.state == (lostCalls == .failure ? .open : .closed))
      withExtendedLifetime(permits) {}
    }
  }

  @Test func `a probe needs room as well, and leaves its lease to another one if there is none`()
    throws
  {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1, maxConcurrent: 1))
    let other = try host.process().store().breaker("gpu")
    let permit = try breaker.acquire()
    try other.trip()
    host.clock.advance(by: .seconds(30))
    let error = #expect(throws: BreakerError.self) { try other.run {} }
    #expect(error?.rejection?.cause == .busy)
    #expect(other.snapshot().leases.isEmpty)
    #expect(other.state == .halfOpen)
    permit.ignore()
    try other.run {}
    #expect(other.state == .closed)
  }

  @Test func `an operator who changes the limit changes it for the next call`() throws {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 1))
    let other = try host.process().store().breaker("gpu")
    var permits = [try breaker.acquire().shared()]
    #expect(isBusy(other))
    try breaker.overridePolicy(set: [.maxConcurrent: "2"])
    permits.append(try other.acquire().shared())
    #expect(isBusy(other) && isBusy(breaker))
    try other.overridePolicy(unset: [.maxConcurrent])
    try other.overridePolicy(set: [.maxConcurrent: "1"])
    permits.removeFirst().succeed()
    #expect(isBusy(breaker))
    permits.removeFirst().succeed()
    #expect(!isBusy(breaker))
  }

  @Test func `a limit that is removed holds for nobody`() throws {
    let breaker = try host.store().breaker("gpu")
    try breaker.overridePolicy(set: [.maxConcurrent: "1"])
    let permit = try breaker.acquire()
    #expect(isBusy(breaker))
    try breaker.overridePolicy(unset: [.maxConcurrent])
    #expect(!isBusy(breaker))
    permit.succeed()
    try breaker.overridePolicy(set: [.maxConcurrent: "1"])
    #expect(!isBusy(breaker))
  }

  @Test func `a caller waits for its turn, no longer than it may`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .milliseconds(1))
    let breaker = try breaker(policy)
    let permit = try breaker.acquire().shared()
    #expect(isBusy(breaker))
    try breaker.overridePolicy(set: [.queueTimeout: "1h"])
    let threads = Threads()
    let answer = Guarded<Int?>(nil)
    threads.start {
      let value = try? breaker.run { 42 }
      answer.withLock { $0 = value }
    }
    permit.succeed()
    threads.join()
    #expect(answer.withLock { $0 } == 42)
  }

  @Test func `a snapshot shows who is under way and who waits`() throws {
    let policy = BreakerPolicy(maxConcurrent: 2, queueTimeout: .seconds(3_600))
    let (worker, other) = (host.process(), host.process())
    let breaker = try breaker(policy, in: worker)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    var permits = [try breaker.acquire().shared(), try breaker.acquire().shared()]
    let waiting = try other.store().breaker("gpu")
    let threads = Threads()
    threads.start { _ = try? waiting.run {} }
    while breaker.snapshot().limit?.waiters.count == 0 { sched_yield() }
    let shown = try #require(try host.store().snapshot(of: "gpu")?.limit)
    #expect(shown.unitsInUse == 2)
    #expect(shown.calls.map(\.pid) == [worker.pid, worker.pid])
    #expect(shown.waiters.map(\.pid) == [other.pid])
    #expect((shown.calls + shown.waiters).allSatisfy { $0.units == 1 && !$0.isOwnerGone })
    #expect(shown.waits.count == 0 && shown.waits.abandoned == 0)
    permits.removeFirst().succeed()
    threads.join()
    let later = try #require(breaker.snapshot().limit)
    #expect(later.unitsInUse == 1 && later.waiters.isEmpty)
    #expect(later.waits.count == 1 && later.waits.total > .zero)
    worker.kill()
    let left = try #require(waiting.snapshot().limit)
    #expect(left.unitsInUse == 0)
    #expect(left.calls.map(\.isOwnerGone) == [true])
    // A breaker without a limit has nothing to show.
    #expect(try other.store().breaker("plain").snapshot().limit == nil)
    permits.removeAll()
  }

  @Test func `those who wait are rejected when the breaker opens`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queue: 4, queueTimeout: .seconds(3_600))
    let breaker = try breaker(policy)
    let permit = try breaker.acquire()
    let threads = Threads()
    let errors = Guarded<[BreakerError]>([])
    for _ in 0..<4 {
      let waiting = try host.process().store().breaker("gpu")
      threads.start {
        do throws(BreakerError) {
          waiting.end(try waiting.acquire())
        } catch {
          errors.withLock { $0.append(error) }
        }
      }
    }
    try host.process().store().breaker("gpu").trip()
    threads.join()
    #expect(errors.withLock { $0 }.count == 4)
    for error in errors.withLock({ $0 }) {
      #expect(error.rejection?.cause == .open)
      #expect(error.rejection?.state == .open)
    }
    permit.ignore()
  }

  @Test func `tasks that wait for their turn occupy none of Swift's threads`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try breaker(policy)
    let permit = try await breaker.acquire().shared()
    let begun = Guarded(0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await breaker.run { () async throws in begun.withLock { $0 += 1 } }
        }
      }
      while breaker.snapshot().limit?.waiters.count != 40 { await Task.yield() }
      #expect(begun.withLock { $0 } == 0)
      permit.succeed()
      try await group.waitForAll()
    }
    #expect(begun.withLock { $0 } == 40)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `tasks that wait for a permit occupy none of Swift's threads, and can be cancelled`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try breaker(policy)
    let permit = try await breaker.acquire().shared()
    let tasks = (0..<40).map { number in
      Task {
        if number % 2 == 0 { return try await breaker.acquire().succeed() }
        switch try await breaker.decide() {
        case .permitted(let permit): return permit.succeed()
        case .rejected: return .refused
        }
      }
    }
    while breaker.snapshot().limit?.waiters.count != 40 { await Task.yield() }
    for task in tasks.prefix(10) {
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    permit.succeed()
    for task in tasks.dropFirst(10) { #expect(try await task.value == .counted) }
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    // Nobody has to wait for a rejection.
    try breaker.trip()
    await #expect(throws: BreakerError.self) { _ = try await breaker.acquire().succeed() }
    guard case .rejected(let rejection) = try await breaker.decide() else {
      Issue.record("permitted")
      return
    }
    #expect(rejection.cause == .open)
  }

  @Test func `a task that is cancelled while it waits leaves at once, and ran nothing`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try breaker(policy)
    let permit = try await breaker.acquire()
    let waiting = [
      Task { try await breaker.run { () async throws in Issue.record("it ran") } },
      Task {
        try await breaker.run(retry: .fixed(attempts: 3, delay: .zero)) { () async throws in
          Issue.record("it ran")
        }
      },
    ]
    while breaker.snapshot().limit?.waiters.count != 2 { await Task.yield() }
    for task in waiting {
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(breaker.snapshot().limit?.waits.abandoned == 2)
    let totals = breaker.snapshot().totals
    #expect(totals.busy == 0 && totals.failures == 0)
    permit.succeed()
  }

  @Test func `a call inside of a call needs no room of its own, as long as the outer one lasts`()
    async throws
  {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 1))
    let other = try host.store().breaker("disk", policy: BreakerPolicy(maxConcurrent: 1))
    try other.run {}
    try breaker.run {
      try breaker.run { #expect(breaker.snapshot().limit?.unitsInUse == 1) }
      try other.run { try breaker.run { try other.run {} } }
      // A thread of its own is not inside.
      let threads = Threads()
      threads.start { #expect(isBusy(breaker)) }
      threads.join()
      try breaker.run(retry: .fixed(attempts: 2, delay: .zero)) {}
    }
    let late = try await breaker.run { () async throws -> Task<Bool, Never> in
      async let child = breaker.run { () async throws in 42 }
      #expect(try await child == 42)
      try await breaker.run(timeout: .seconds(600)) {}
      return Task {
        // It outlives the call that it was started in.
        while breaker.snapshot().limit?.unitsInUse != 0 { await Task.yield() }
        let permit = try? await breaker.acquire()
        guard permit != nil else { return false }
        return isBusy(breaker)
      }
    }
    #expect(await late.value)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `calls take as many units as they claim, and background leaves the reserve`() throws {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 4, reserve: 2))
    let heavy = breaker.claiming(units: 2)
    let background = breaker.claiming(inBackground: true)
    let first = try background.acquire().shared()
    let second = try background.acquire().shared()
    #expect(isBusy(background) && !isBusy(breaker))
    let third = try heavy.acquire().shared()
    #expect(isBusy(breaker) && breaker.snapshot().limit?.unitsInUse == 4)
    first.succeed()
    #expect(isBusy(heavy))
    second.succeed()
    #expect(!isBusy(heavy))
    third.succeed()
    // One that claims more than there is takes all.
    let all = try breaker.claiming(units: 9).acquire()
    #expect(isBusy(breaker))
    all.succeed()
    #expect(!isBusy(breaker.claiming(units: 0)))
  }

  @Test func `an operator who only observes lets calls through that would be rejected`() throws {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 1))
    let permit = try breaker.acquire()
    try breaker.force(.observe)
    let before = breaker.snapshot().totals.wouldReject
    try breaker.run {}
    #expect(breaker.snapshot().totals.wouldReject == before + 1)
    permit.succeed()
    try breaker.run {}
    #expect(breaker.snapshot().totals.wouldReject == before + 1)
  }

  @Test func `processes share the limit that they know while the store cannot be used`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1)
    let breakers = [try breaker(policy), try breaker(policy, in: host.process())]
    host.failStore()
    // Only a call that has to write notices it.
    for breaker in breakers {
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    }
    let permit = try breakers[0].acquire().shared()
    for breaker in breakers {
      #expect(isBusy(breaker))
      #expect(breaker.snapshot().limit?.unitsInUse == 1)
    }
    // One that has never had the store keeps to the limit alone.
    let late = try host.process().store().breaker("gpu", policy: policy)
    let alone = try late.acquire()
    #expect(isBusy(late))
    #expect(late.snapshot().limit?.unitsInUse == 1)
    alone.succeed()
    #expect(!isBusy(late))
    host.repairStore()
    host.clock.advance(by: .seconds(2))
    for breaker in breakers { #expect(isBusy(breaker)) }
    permit.succeed()
    try breakers[1].run {}
  }

  @Test func `a process that cannot read a changed limit keeps to the one that the others have`()
    throws
  {
    for action in [StoreFailureAction.continueLocally, .permit] {
      let host = TestHost()
      let policy = BreakerPolicy(maxConcurrent: 2)
      let other = try host.store().breaker("gpu", policy: policy)
      let breaker = try host.process().store().breaker(
        "gpu", policy: policy, onStoreFailure: action)
      for each in [other, breaker] { try each.run {} }
      try other.overridePolicy(set: [.maxConcurrent: "1"])
      let permit = try other.acquire()
      host.failStore()
      #expect(isBusy(breaker), "\(action)")
      permit.succeed()
      #expect(!isBusy(breaker), "\(action)")
      let own = try breaker.acquire()
      #expect(isBusy(breaker) && isBusy(other), "\(action)")
      own.succeed()
    }
  }

  @Test func `calls found lost while the store fails count when it is back, each of them once`()
    throws
  {
    let policy = BreakerPolicy(maxFailures: 9, maxConcurrent: 2, lostCalls: .failure)
    let worker = host.process()
    let lost = try breaker(policy, in: worker)
    let permits = [try lost.acquire().shared(), try lost.acquire().shared()]
    let finder = try host.process().store().breaker("gpu", policy: policy)
    #expect(isBusy(finder))
    host.failStore()
    worker.kill()
    #expect(!isBusy(finder))
    host.repairStore()
    for _ in 0..<3 {
      host.clock.advance(by: .seconds(11))
      #expect(!isBusy(finder))
      #expect(!isBusy(try host.process().store().breaker("gpu")))
    }
    let totals = finder.snapshot().totals
    #expect(totals.lostCalls == 2 && totals.failures == 2)
    withExtendedLifetime(permits) {}
  }
}

extension Breaker {
  fileprivate func end(_ permit: consuming Permit) { permit.ignore() }
}

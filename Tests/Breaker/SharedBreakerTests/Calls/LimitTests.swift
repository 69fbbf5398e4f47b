import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Breakers that limit how many calls may be under way.
@Suite(.timeLimit(.minutes(60))) struct LimitTests {
  private let host = TestHost()

  @Test func `as many calls as the limit allows are under way on the whole host`() throws {
    let policy = BreakerPolicy(maxConcurrent: 3)
    let breakers = try (0..<3).map { _ in try host.limited(policy, in: host.process()) }
    var permits = try (0..<3).map { try breakers[$0].acquire().shared() }
    for breaker in breakers { #expect(breaker.isBusy) }
    permits.removeFirst().succeed()
    permits.append(try breakers[2].acquire().shared())
    #expect(breakers[0].isBusy)
    permits.removeFirst().fail()
    #expect(!breakers[0].isBusy)
    // One that is dropped gives its room back, too.
    permits.removeAll()
    for _ in 0..<3 { permits.append(try breakers[1].acquire().shared()) }
    #expect(breakers[1].isBusy)
  }

  @Test func `a busy breaker says so, and has neither failed nor opened`() throws {
    let breaker = try host.limited(BreakerPolicy(maxFailures: 1, maxConcurrent: 1))
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
    let breaker = try host.limited(BreakerPolicy(maxFailures: 100, maxConcurrent: 1))
    for _ in 0..<3 {
      try await breaker.run { #expect(breaker.snapshot().limit?.unitsInUse == 1) }
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
    #expect(!breaker.isBusy)
  }

  @Test func `a timeout gives the room back, also if the work goes on`() async throws {
    let breaker = try host.limited(BreakerPolicy(maxFailures: 9, maxConcurrent: 1))
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: .seconds(2)) { await work.hang() } }
    await work.untilItHangs()
    #expect(breaker.isBusy)
    try await host.clock.untilSomebodySleeps(for: .seconds(2))
    host.clock.advance(by: .seconds(2))
    await #expect(throws: CallTimedOut.self) { try await call.value }
    #expect(!breaker.isBusy)
    work.release()
    await work.untilItEnded()
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
      #expect(breaker.isBusy)
      worker.kill()
      // The process that finds the room also finds the lost calls.
      _ = breaker.isBusy
      let totals = breaker.snapshot().totals
      #expect(totals.failures == failures && totals.ignored >= 2 - failures)
      #expect(totals.lostCalls == 2)
      #expect(breaker.state == (lostCalls == .failure ? .open : .closed))
      withExtendedLifetime(permits) {}
    }
  }

  @Test func `a token takes no room, and needs none`() throws {
    let store = host.store()
    let breaker = try store.breaker("gpu", policy: BreakerPolicy(maxConcurrent: 1))
    try breaker.run {}
    var tokens = [try breaker.acquireToken()]
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    let permit = try breaker.acquire()
    #expect(breaker.isBusy)
    tokens.append(try breaker.acquireToken())
    for token in tokens { #expect(try store.report(token, .success) == .counted) }
    #expect(breaker.isBusy)
    permit.succeed()
  }

  @Test func `a probe needs room as well, and leaves its lease to another one if there is none`()
    throws
  {
    let breaker = try host.limited(BreakerPolicy(maxFailures: 1, maxConcurrent: 1))
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
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 1))
    let other = try host.process().store().breaker("gpu")
    var permits = [try breaker.acquire().shared()]
    #expect(other.isBusy)
    try breaker.overridePolicy(set: [.maxConcurrent: "2"])
    permits.append(try other.acquire().shared())
    #expect(other.isBusy && breaker.isBusy)
    try other.overridePolicy(unset: [.maxConcurrent])
    try other.overridePolicy(set: [.maxConcurrent: "1"])
    permits.removeFirst().succeed()
    #expect(breaker.isBusy)
    permits.removeFirst().succeed()
    #expect(!breaker.isBusy)
  }

  @Test func `a limit that is removed holds for no caller`() throws {
    let breaker = try host.store().breaker("gpu")
    try breaker.overridePolicy(set: [.maxConcurrent: "1"])
    let permit = try breaker.acquire()
    #expect(breaker.isBusy)
    try breaker.overridePolicy(unset: [.maxConcurrent])
    #expect(!breaker.isBusy)
    permit.succeed()
    try breaker.overridePolicy(set: [.maxConcurrent: "1"])
    #expect(!breaker.isBusy)
  }

  @Test func `a snapshot shows the calls under way and the waiters`() throws {
    let policy = BreakerPolicy(maxConcurrent: 2, queueTimeout: .seconds(3_600))
    let (worker, other) = (host.process(), host.process())
    let breaker = try host.limited(policy, in: worker)
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

  @Test func `a call inside of a call needs no room of its own, as long as the outer one lasts`()
    async throws
  {
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 1))
    let other = try host.store().breaker("disk", policy: BreakerPolicy(maxConcurrent: 1))
    try await other.run {}
    try await breaker.run {
      try breaker.run { #expect(breaker.snapshot().limit?.unitsInUse == 1) }
      try other.run { try breaker.run { try other.run {} } }
      // A thread of its own is not inside.
      let threads = Threads()
      threads.start { #expect(breaker.isBusy) }
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
        return breaker.isBusy
      }
    }
    #expect(await late.value)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `calls take as many units as they claim, and background leaves the reserve`() throws {
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 4, reserve: 2))
    let heavy = breaker.claiming(units: 2)
    let background = breaker.claiming(inBackground: true)
    let first = try background.acquire().shared()
    let second = try background.acquire().shared()
    #expect(background.isBusy && !breaker.isBusy)
    let third = try heavy.acquire().shared()
    #expect(breaker.isBusy && breaker.snapshot().limit?.unitsInUse == 4)
    first.succeed()
    #expect(heavy.isBusy)
    second.succeed()
    #expect(!heavy.isBusy)
    third.succeed()
    // One that claims more than there is takes all.
    let all = try breaker.claiming(units: 9).acquire()
    #expect(breaker.isBusy)
    all.succeed()
    #expect(!breaker.claiming(units: 0).isBusy)
  }

  @Test func `an operator who only observes lets calls through that would be rejected`() throws {
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 1))
    let permit = try breaker.acquire()
    try breaker.force(.observe)
    let before = breaker.snapshot().totals.wouldReject
    try breaker.run {}
    #expect(breaker.snapshot().totals.wouldReject == before + 1)
    permit.succeed()
    try breaker.run {}
    #expect(breaker.snapshot().totals.wouldReject == before + 1)
  }

  @Test func `a mode that observes lets calls through at once, including waiting ones`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let operated = try host.process().store().breaker("gpu")
    let holder = try await breaker.acquire().shared()
    let waiting = Task { try await breaker.acquire().shared() }
    await until { breaker.snapshot().limit?.waiters.count == 1 }
    try operated.force(.observe)
    let late = try await waiting.value
    #expect(breaker.snapshot().totals.wouldReject == 1)
    func callInThread() throws { try breaker.run {} }
    try callInThread()
    try await breaker.run {}
    try await breaker.run { () async throws in }
    let snapshot = breaker.snapshot()
    #expect(snapshot.totals.wouldReject == 4 && snapshot.totals.busy == 0)
    // A call without room is in no unit that is under way.
    #expect(snapshot.limit?.unitsInUse == 1)
    late.succeed()
    #expect(breaker.snapshot().limit?.unitsInUse == 1)
    holder.succeed()
    try operated.force(.automatic)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `a breaker passes its claims on to a breaker that is made from it`() throws {
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 4, reserve: 1))
    let heavy = breaker.claiming(units: 3)
    let training = heavy.claiming(inBackground: true)
    let permit = try training.acquire()
    #expect(breaker.snapshot().limit?.unitsInUse == 3)
    #expect(breaker.claiming(inBackground: true).isBusy && !breaker.isBusy)
    permit.succeed()
    let light = try training.claiming(units: 1, inBackground: false).acquire()
    #expect(breaker.snapshot().limit?.unitsInUse == 1)
    #expect(!heavy.isBusy)
    light.succeed()
  }
}

extension TestHost {
  /// A breaker with a limit, as a process of this host has it; a call has created it.
  func limited(_ policy: BreakerPolicy, in process: TestProcess? = nil) throws -> Breaker {
    let breaker = try (process?.store() ?? store()).breaker("gpu", policy: policy)
    try breaker.run {}
    return breaker
  }
}

extension Breaker {
  /// Whether a call finds no room now.
  var isBusy: Bool {
    do throws(BreakerError) {
      end(try acquire())
      return false
    } catch {
      return error.rejection?.cause == .busy
    }
  }

  func end(_ permit: consuming Permit) { permit.ignore() }
}

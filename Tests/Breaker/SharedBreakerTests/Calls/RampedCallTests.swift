import SharedBreakerTesting
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// Calls of several processes in a ramp: as many are under way as have succeeded since it began, and one more.
@Suite(.timeLimit(.minutes(60))) struct RampedCallTests {
  private let host = TestHost()
  private static let policy = BreakerPolicy(rampUp: .seconds(10))
  private static let patient = BreakerPolicy(rampUp: .seconds(10), queueTimeout: .seconds(3_600))

  /// A breaker whose hold is over, with the breakers of other processes.
  private func rampingBreakers(_ policy: BreakerPolicy, count: Int = 3) throws -> [Breaker] {
    let breaker = try host.limited(policy)
    let others = try (1..<count).map { _ in try host.process().store().breaker("gpu") }
    try breaker.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    return [breaker] + others
  }

  @Test func `the host has 1, 2, 4 and 8 calls under way, whichever processes make them`() throws {
    let breakers = try rampingBreakers(Self.policy)
    var (underWay, causes): ([Int], [RejectionCause: Int]) = ([], [:])
    for _ in 0..<5 {
      var permits: [SharedPermit] = []
      for number in 0..<20 {
        do throws(BreakerError) {
          permits.append(try breakers[number % 3].begin())
        } catch {
          causes[error.rejection?.cause ?? .open, default: 0] += 1
        }
      }
      underWay.append(permits.count)
      permits.forEach { $0.succeed() }
    }
    #expect(underWay == [1, 2, 4, 8, 16])
    // The first of all was the one that went first, beside which calls are held.
    #expect(causes == [.held: 19, .ramping: 18 + 16 + 12 + 4])
    let snapshot = breakers[0].snapshot()
    #expect(snapshot.totals.ramping > 0 && snapshot.totals.busy == 0 && snapshot.trips == 0)
  }

  @Test func `a first call that still runs was let in, so another one goes beside it`() throws {
    let breakers = try rampingBreakers(Self.policy)
    let first = try breakers[0].begin()
    host.clock.advance(by: .seconds(30))
    let second = try breakers[1].begin()
    #expect(throws: BreakerError.self) { try breakers[2].run {} }
    second.succeed()
    let more = try [breakers[1].begin(), breakers[2].begin()]
    #expect(throws: BreakerError.self) { try breakers[0].run {} }
    #expect(breakers[0].snapshot().ramp?.unitsPermitted == 3)
    (more + [first]).forEach { $0.ignore() }
  }

  @Test func `a rejection says why, and when it is over at the latest`() throws {
    let breaker = try rampingBreakers(Self.policy)[0]
    try breaker.run {}
    host.clock.advance(by: .seconds(4))
    let permits = try [breaker.begin(), breaker.begin()]
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.cause == .ramping)
    #expect(error?.retryAfter == .seconds(6))
    let snapshot = breaker.snapshot()
    #expect(snapshot.ramp?.endsIn == .seconds(6) && snapshot.ramp?.unitsPermitted == 2)
    #expect(snapshot.permits && snapshot.hasRoom == false && snapshot.limit?.unitsInUse == 2)
    permits.forEach { $0.ignore() }
  }

  @Test func `a lone caller is never turned away, whatever its calls end in`() throws {
    let breaker = try rampingBreakers(BreakerPolicy(maxFailures: 100, rampUp: .seconds(10)))[0]
    for number in 0..<20 {
      let permit = try breaker.begin()
      if number % 2 == 0 { permit.fail() } else { permit.ignore() }
    }
    #expect(breaker.snapshot().totals.ramping == 0)
  }

  @Test func `when its time is over all go, and are healthy calls again`() throws {
    let breakers = try rampingBreakers(Self.policy)
    try breakers[0].run {}
    host.clock.advance(by: .seconds(10))
    let permits = try (0..<60).map { try breakers[$0 % 3].begin() }
    permits.forEach { $0.succeed() }
    let snapshot = breakers[0].snapshot()
    #expect(snapshot.ramp == nil && snapshot.limit == nil && snapshot.totals.ramping == 0)
    #expect(breakers.allSatisfy { $0.enterHealthy().isPermitted })
  }

  @Test func `a limit holds in a ramp too, and is named where it is in the way`() throws {
    let policy = BreakerPolicy(rampUp: .seconds(10), maxConcurrent: 2)
    let breakers = try rampingBreakers(policy)
    for _ in 0..<5 { try breakers[0].run {} }
    let permits = try [breakers[0].begin(), breakers[1].begin()]
    let error = #expect(throws: BreakerError.self) { try breakers[2].run {} }
    #expect(error?.rejection?.cause == .busy)
    permits.forEach { $0.succeed() }
  }

  @Test func `a failure opens by the ordinary conditions, and the next close begins another ramp`()
    throws
  {
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1), rampUp: .seconds(10))
    let breakers = try rampingBreakers(policy)
    for _ in 0..<8 { try breakers[1].run {} }
    try breakers[0].begin().fail()
    #expect(breakers[2].snapshot().state == .open && breakers[2].snapshot().ramp == nil)
    host.clock.advance(by: .seconds(1))
    try breakers[2].run {}
    #expect(breakers[0].snapshot().ramp?.unitsPermitted == 2)
    let permits = try [breakers[0].begin(), breakers[1].begin()]
    #expect(throws: BreakerError.self) { try breakers[2].run {} }
    permits.forEach { $0.succeed() }
  }

  @Test func `forced_closed and observe let all calls go`() throws {
    let breakers = try rampingBreakers(Self.policy)
    try breakers[0].run {}
    try breakers[0].force(.observe)
    var permits = try (0..<6).map { _ in try breakers[0].begin() }
    #expect(breakers[0].snapshot().totals.wouldReject == 4)
    try breakers[0].force(.forcedClosed)
    permits += try (0..<6).map { try breakers[$0 % 3].begin() }
    permits.forEach { $0.ignore() }
    #expect(breakers[0].snapshot().totals.ramping == 0)
  }

  @Test func `the units of heavy calls count, and one alone goes whatever its weight is`() throws {
    let policy = BreakerPolicy(rampUp: .seconds(10), maxConcurrent: 8)
    let heavy = try rampingBreakers(policy)[0].claiming(units: 3)
    try heavy.run {}
    let first = try heavy.begin()
    #expect(throws: BreakerError.self) { try heavy.run {} }
    first.succeed()
    // Two units and one for the first call, three for this one, and one more.
    let next = try (0..<2).map { _ in try heavy.begin() }
    #expect(throws: BreakerError.self) { try heavy.run {} }
    next.forEach { $0.succeed() }
  }

  @Test func `a call inside of another one needs no room`() throws {
    let breaker = try rampingBreakers(Self.policy)[0]
    try breaker.run {}
    try breaker.run { try breaker.run { try breaker.run {} } }
    #expect(breaker.snapshot().totals.ramping == 0)
  }

  @Test func `the room of a process that has died is free`() throws {
    let breakers = try rampingBreakers(Self.policy)
    try breakers[0].run {}
    let dying = host.process()
    let lost = try (0..<2).map { _ in try dying.store().breaker("gpu").begin() }
    #expect(throws: BreakerError.self) { try breakers[1].run {} }
    dying.kill()
    try breakers[2].run {}
    lost.forEach { $0.ignore() }
  }

  @Test func `callers wait without max-concurrent, and begin as others succeed`() async throws {
    let breakers = try rampingBreakers(Self.patient)
    try await breakers[0].run { () async throws in }
    let (begun, most) = (Guarded(0), Guarded(0))
    let gate = Guarded<[CheckedContinuation<Void, Never>]>([])
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<60 {
        group.addTask {
          try await breakers[number % 3].run { () async throws in
            await withCheckedContinuation { caller in
              gate.withLock { $0.append(caller) }
              let now = begun.withLock {
                $0 += 1
                return $0
              }
              most.withLock { $0 = max($0, now) }
            }
            begun.withLock { $0 -= 1 }
          }
        }
      }
      for wave in [2, 4, 8, 16, 30] {
        await until { gate.withLock { $0.count } == wave }
        await until { breakers[0].snapshot().limit?.unitsInUse == wave }
        let callers = gate.withLock { callers in
          defer { callers = [] }
          return callers
        }
        callers.forEach { $0.resume() }
      }
      try await group.waitForAll()
    }
    #expect(most.withLock { $0 } == 30)
    let snapshot = breakers[0].snapshot()
    #expect(snapshot.totals.ramping == 0 && snapshot.limit?.waiters.isEmpty == true)
  }

  @Test(arguments: [false, true])
  func `callers that wait go when the time is over, although no other caller comes`(isTask: Bool)
    async throws
  {
    let breakers = try rampingBreakers(Self.patient)
    try breakers[0].begin().succeed()
    // Their calls hang.
    let hung = try [breakers[0].begin(), breakers[0].begin()]
    let done = Guarded(0)
    let threads = Threads()
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<10 {
        if isTask {
          group.addTask {
            try? await breakers[number % 3].run { () async throws in done.withLock { $0 += 1 } }
          }
        } else {
          threads.start { try? breakers[number % 3].run { done.withLock { $0 += 1 } } }
        }
      }
      await until { breakers[0].snapshot().limit?.waiters.count == 10 }
      host.clock.advance(by: .seconds(10) - .nanoseconds(1))
      #expect(done.withLock { $0 } == 0)
      host.clock.advance(by: .nanoseconds(1))
      await group.waitForAll()
      threads.join()
    }
    #expect(done.withLock { $0 } == 10)
    hung.forEach { $0.ignore() }
    #expect(breakers[0].snapshot().ramp == nil)
  }

  @Test func `a caller that cannot make it is turned away as ramping`() async throws {
    let policy = BreakerPolicy(rampUp: .seconds(10), queue: 1, queueTimeout: .seconds(3_600))
    let breaker = try rampingBreakers(policy)[0]
    try breaker.begin().succeed()
    let permits = try [breaker.begin(), breaker.begin()]
    let call = Task { try await breaker.run { () async throws in } }
    await until { breaker.snapshot().limit?.waiters.count == 1 }
    let error = await #expect(throws: BreakerError.self) {
      try await breaker.run { () async throws in }
    }
    #expect(error?.rejection?.cause == .ramping)
    permits.forEach { $0.succeed() }
    try await call.value
  }

  @Test(arguments: [StoreFailureAction.continueLocally, .permit])
  func `without the store a ramp goes on, and ends by its time`(action: StoreFailureAction) throws {
    let breaker = try host.store().breaker("gpu", policy: Self.policy, onStoreFailure: action)
    try breaker.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    try breaker.run {}
    host.failStore()
    #expect(throws: BreakerError.self) { try breaker.hold(for: .seconds(1)) }
    var permits = try [breaker.begin(), breaker.begin()]
    #expect(throws: BreakerError.self) { try breaker.run {} }
    permits.forEach { $0.succeed() }
    permits = try (0..<4).map { _ in try breaker.begin() }
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .seconds(10))
    permits += try (0..<20).map { _ in try breaker.begin() }
    permits.forEach { $0.succeed() }
    host.repairStore()
  }

  @Test func `callers that wait go when the policy loses the word`() async throws {
    let breaker = try rampingBreakers(Self.patient)[0]
    try breaker.begin().succeed()
    let hung = try [breaker.begin(), breaker.begin()]
    let other = try host.process().store().breaker("gpu")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<8 { group.addTask { try await breaker.run { () async throws in } } }
      await until { breaker.snapshot().limit?.waiters.count == 8 }
      try other.overridePolicy(set: [.rampUp: "none"])
      try await group.waitForAll()
    }
    hung.forEach { $0.ignore() }
  }

  @Test func `a mode that was forced for a time suspends the ramp for no longer`() throws {
    let breakers = try rampingBreakers(Self.policy)
    try breakers[0].run {}
    try breakers[1].force(.forcedClosed, for: .seconds(4))
    let permits = try (0..<6).map { try breakers[$0 % 3].begin() }
    permits.forEach { $0.ignore() }
    host.clock.advance(by: .seconds(4))
    // As many as have succeeded, and one, if the ramp has gone on; one if it has begun again.
    var after = try [breakers[0].begin()]
    if let next = try? breakers[1].begin() { after.append(next) }
    let error = #expect(throws: BreakerError.self) { try breakers[2].run {} }
    #expect(error?.rejection?.cause == .ramping && error?.retryAfter == .seconds(6))
    after.forEach { $0.ignore() }
  }

  @Test func `callers that are turned away are told different times`() throws {
    let policy = BreakerPolicy(jitter: 0.5, rampUp: .seconds(10))
    let breaker = try rampingBreakers(policy)[0]
    try breaker.run {}
    let permits = try [breaker.begin(), breaker.begin()]
    let times = (0..<20).map { _ in
      #expect(throws: BreakerError.self) { try breaker.run {} }?.retryAfter ?? .zero
    }
    #expect(Set(times).count > 1)
    #expect(times.allSatisfy { (.seconds(10)...(.seconds(15))).contains($0) })
    permits.forEach { $0.ignore() }
  }

  @Test func `a call by token is not bounded, and its success counts`() throws {
    let breakers = try rampingBreakers(Self.policy)
    let store = host.process().store()
    let first = try store.breaker("gpu").acquireToken()
    try store.report(first, .success)
    #expect(breakers[0].snapshot().ramp?.unitsPermitted == 2)
  }

  @Test func `a hold alone takes no room on the disk`() throws {
    let breaker = try host.limited(BreakerPolicy())
    try breaker.hold(for: .seconds(60))
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .seconds(60))
    try breaker.acquire().succeed()
    #expect(!breaker.engine.isLimited(breaker.cell))
  }
}

extension Breaker {
  /// Begins a call that the test ends.
  fileprivate func begin() throws(BreakerError) -> SharedPermit { try acquire().shared() }
}

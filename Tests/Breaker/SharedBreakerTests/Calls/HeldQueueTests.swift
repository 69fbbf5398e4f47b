import SharedBreakerTesting
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// Callers that wait for the end of a hold: threads, and tasks without one.
@Suite(.timeLimit(.minutes(60))) struct HeldQueueTests {
  private let host = TestHost()
  private static let patient = BreakerPolicy(
    maxConcurrent: 8, queueTimeout: .seconds(3_600))

  /// Waits until so many callers wait.
  private func waiting(_ count: Int, _ breaker: Breaker) async {
    await until { breaker.snapshot().limit?.waiters.count == count }
  }

  @Test(arguments: [false, true])
  func `a caller waits for the end of a hold, and is counted as permitted`(isTask: Bool)
    async throws
  {
    let breaker = try host.limited(Self.patient)
    try host.process().store().breaker("gpu").hold(for: .seconds(60))
    let begun = Guarded<[Duration]>([])
    let threads = Threads()
    let clock = host.clock
    let task = Task {
      if isTask {
        try await breaker.run { () async throws in begun.withLock { $0.append(clock.now.offset) } }
      }
    }
    if !isTask {
      threads.start {
        try? breaker.run { begun.withLock { $0.append(clock.now.offset) } }
      }
    }
    await waiting(1, breaker)
    clock.advance(by: .seconds(59))
    #expect(begun.withLock { $0 }.isEmpty)
    clock.advance(by: .seconds(1))
    try await task.value
    threads.join()
    #expect(begun.withLock { $0 } == [.seconds(60)])
    let snapshot = breaker.snapshot()
    #expect(snapshot.hold == nil && snapshot.limit?.unitsInUse == 0)
    #expect(snapshot.totals.held == 0 && snapshot.totals.busy == 0)
  }

  @Test func `a caller that cannot wait until the end is turned away at once`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 8, queueTimeout: .seconds(10))
    let breaker = try host.limited(policy)
    try breaker.hold(for: .seconds(11))
    for _ in 0..<2 {
      let error = await #expect(throws: BreakerError.self) {
        try await breaker.run { () async throws in }
      }
      #expect(error?.rejection?.cause == .held)
      #expect(error?.retryAfter == .seconds(11))
    }
    #expect(breaker.snapshot().totals.held == 2)
  }

  @Test func `callers that do not wait are rejected as before`() throws {
    let breaker = try host.limited(BreakerPolicy(maxConcurrent: 8))
    try breaker.hold(for: .milliseconds(1))
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.cause == .held)
  }

  @Test func `one caller goes first, and its success lets the others go`() async throws {
    let breaker = try host.limited(Self.patient)
    try breaker.hold(for: .seconds(60))
    let begun = Guarded<[Int]>([])
    let first = Guarded<CheckedContinuation<Void, Never>?>(nil)
    let breakers = try (0..<4).map { _ in try host.process().store().breaker("gpu") }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (number, waiting) in breakers.enumerated() {
        group.addTask {
          try await waiting.run { () async throws in
            let isFirst = begun.withLock {
              $0.append(number)
              return $0.count == 1
            }
            if isFirst {
              await withCheckedContinuation { (caller: CheckedContinuation<Void, Never>) in
                first.withLock { $0 = caller }
              }
            }
          }
        }
        // In this order.
        await self.waiting(number + 1, breaker)
      }
      host.clock.advance(by: .seconds(60))
      await until { first.withLock { $0 } != nil }
      await waiting(3, breaker)
      #expect(begun.withLock { $0 } == [0])
      first.withLock { $0 }?.resume()
      try await group.waitForAll()
    }
    #expect(begun.withLock { Set($0) } == [0, 1, 2, 3])
    let snapshot = breaker.snapshot()
    #expect(snapshot.limit?.unitsInUse == 0 && snapshot.limit?.waiters.isEmpty == true)
    #expect(snapshot.totals.held == 0 && snapshot.totals.busy == 0)
  }

  @Test func `callers begin in the order in which they came`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    try breaker.hold(for: .seconds(60))
    let begun = Guarded<[Int]>([])
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<20 {
        let waiting = number % 2 == 0 ? breaker : try host.process().store().breaker("gpu")
        group.addTask {
          try await waiting.run { () async throws in begun.withLock { $0.append(number) } }
        }
        await self.waiting(number + 1, breaker)
      }
      host.clock.advance(by: .seconds(60))
      try await group.waitForAll()
    }
    #expect(begun.withLock { $0 } == Array(0..<20))
  }

  @Test func `callers go at once when the hold is ended by hand`() async throws {
    let breaker = try host.limited(Self.patient)
    try breaker.hold(for: .seconds(600))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<100 {
        group.addTask { try await breaker.run { () async throws in } }
      }
      await waiting(100, breaker)
      #expect(try host.process().store().breaker("gpu").endHold())
      try await group.waitForAll()
    }
    #expect(breaker.snapshot().totals.held == 0)
  }

  @Test func `callers leave when the hold becomes longer than they may wait, or the breaker opens`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 8, queueTimeout: .seconds(3_600))
    for isTrip in [false, true] {
      let breaker = try host.limited(policy)
      try breaker.hold(for: .seconds(600))
      let call = Task { try await breaker.run { () async throws in } }
      await waiting(1, breaker)
      let other = try host.process().store().breaker("gpu")
      if isTrip { try other.trip() } else { try other.hold(for: .seconds(4_000)) }
      let error = await #expect(throws: BreakerError.self) { try await call.value }
      #expect(error?.rejection?.cause == (isTrip ? .open : .held))
      #expect(breaker.snapshot().limit?.waiters.isEmpty == true)
      try other.reset()
    }
  }

  @Test func `a caller that waits for room stays in the queue when a hold begins`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let permit = try await host.process().store().breaker("gpu").acquire().shared()
    let begun = Guarded<[Duration]>([])
    let clock = host.clock
    let call = Task {
      try await breaker.run { () async throws in begun.withLock { $0.append(clock.now.offset) } }
    }
    await waiting(1, breaker)
    permit.report(.hold(for: .seconds(30)))
    await waiting(1, breaker)
    #expect(begun.withLock { $0 }.isEmpty)
    clock.advance(by: .seconds(30))
    try await call.value
    #expect(begun.withLock { $0 } == [.seconds(30)])
  }

  @Test func `the next caller goes if the one that goes first fails, or dies`() async throws {
    for isDeath in [false, true] {
      let breaker = try host.limited(Self.patient)
      try breaker.hold(for: .seconds(60))
      let dying = host.process()
      let call = Task {
        let first = try await dying.store().breaker("gpu").acquire().shared()
        if isDeath { dying.kill() } else { first.fail() }
      }
      await waiting(1, breaker)
      let next = Task { try await breaker.run { () async throws in } }
      await waiting(2, breaker)
      host.clock.advance(by: .seconds(60))
      try await call.value
      // Deaths are looked for on the host's clock.
      let task = Task { [clock = host.clock] in
        while !Task.isCancelled {
          clock.advance(by: .milliseconds(100))
          try await Task.sleep(for: .milliseconds(5))
        }
      }
      try await next.value
      task.cancel()
    }
  }

  @Test func `a call inside of another one is told of the hold at once`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    try await breaker.run { () async throws in
      try breaker.hold(for: .seconds(60))
      let error = await #expect(throws: BreakerError.self) {
        try await breaker.run { () async throws in }
      }
      #expect(error?.rejection?.cause == .held)
    }
  }

  @Test(arguments: [BreakerPolicy(rampUp: .seconds(5)), BreakerPolicy(maxConcurrent: 1)])
  func `a call inside of the one that goes first goes with it`(policy: BreakerPolicy) async throws {
    let breaker = try host.limited(policy)
    let other = try host.process().store().breaker("gpu")
    try breaker.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    try await breaker.run { () async throws in
      #expect(throws: BreakerError.self) { try other.run {} }
      let inner = { () throws in try breaker.run {} }
      try inner()
      #expect(breaker.snapshot().hold == nil)
    }
  }

  @Test func `callers wait for the end of a hold without max-concurrent too`() async throws {
    let breaker = try host.limited(BreakerPolicy(queueTimeout: .seconds(3_600)))
    try breaker.hold(for: .seconds(60))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 { group.addTask { try await breaker.run { () async throws in } } }
      await waiting(50, breaker)
      host.clock.advance(by: .seconds(60))
      try await group.waitForAll()
    }
    let snapshot = breaker.snapshot()
    #expect(snapshot.totals.held == 0 && snapshot.limit == nil && snapshot.hasRoom == true)
    #expect(breaker.enterHealthy().isPermitted)
  }

  @Test func `a caller whose queue has no place for it is told of the hold`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 8, queue: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    try breaker.hold(for: .seconds(60))
    let call = Task { try await breaker.run { () async throws in } }
    await waiting(1, breaker)
    let error = await #expect(throws: BreakerError.self) {
      try await breaker.run { () async throws in }
    }
    #expect(error?.rejection?.cause == .held)
    host.clock.advance(by: .seconds(60))
    try await call.value
  }

  @Test func `a caller that is cancelled leaves no lease and no room behind`() async throws {
    let breaker = try host.limited(Self.patient)
    for _ in 0..<20 {
      try breaker.hold(for: .seconds(60))
      let call = Task { try await breaker.run { () async throws in } }
      await waiting(1, breaker)
      host.clock.advance(by: .seconds(60))
      call.cancel()
      _ = await call.result
      #expect(breaker.snapshot().limit?.unitsInUse == 0)
      try await breaker.run { () async throws in }
      #expect(breaker.snapshot().hold == nil)
    }
  }

  @Test func `callers with several units and in the background wait as well`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 4, reserve: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    try breaker.hold(for: .seconds(60))
    let begun = Guarded<[String]>([])
    try await withThrowingTaskGroup(of: Void.self) { group in
      let claims = [
        ("background", breaker.claiming(inBackground: true)), ("heavy", breaker.claiming(units: 4)),
        ("ordinary", breaker),
      ]
      for (number, (name, claiming)) in claims.enumerated() {
        group.addTask {
          try await claiming.run { () async throws in begun.withLock { $0.append(name) } }
        }
        await self.waiting(number + 1, breaker)
      }
      host.clock.advance(by: .seconds(60))
      try await group.waitForAll()
    }
    // Callers of ordinary priority come first, and the heavy one needs all the room.
    #expect(begun.withLock { $0.first } == "heavy")
    #expect(begun.withLock { Set($0) } == ["heavy", "ordinary", "background"])
  }

  @Test func `callers of a hold are sent away when their store is closed`() async throws {
    let process = host.process()
    let store = process.store()
    let breaker = try store.breaker("gpu", policy: Self.patient)
    try await breaker.run { () async throws in }
    try breaker.hold(for: .seconds(60))
    let call = Task { try await breaker.run { () async throws in } }
    await waiting(1, breaker)
    store.endWaits()
    let error = await #expect(throws: BreakerError.self) { try await call.value }
    #expect(error?.rejection != nil)
    store.closeForGood()
    #expect(try host.store().breaker("gpu").snapshot().limit?.waiters.isEmpty == true)
  }

  @Test func `observing lets callers of a hold go at once`() async throws {
    let breaker = try host.limited(Self.patient)
    try breaker.hold(for: .seconds(60))
    let call = Task { try await breaker.run { () async throws in } }
    await waiting(1, breaker)
    try host.process().store().breaker("gpu").force(.observe)
    try await call.value
    try await breaker.run { () async throws in }
    #expect(breaker.snapshot().totals.wouldReject >= 2)
  }

  @Test(arguments: [StoreFailureAction.continueLocally, .permit])
  func `a caller that waits for room gets it although the store has failed after a change`(
    action: StoreFailureAction
  ) async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let other = try host.limited(policy)
    let breaker = try host.process().store().breaker("gpu", policy: policy, onStoreFailure: action)
    try await breaker.run { () async throws in }
    let permit = try await other.acquire()
    let call = Task { try await breaker.run { () async throws in } }
    await waiting(1, other)
    try other.overridePolicy(set: [.openFor: "3s"])
    host.failStore()
    permit.succeed()
    try await call.value
    host.repairStore()
  }

  @Test func `callers stay until the end of a hold although the store fails meanwhile`()
    async throws
  {
    let breaker = try host.limited(Self.patient)
    try breaker.hold(for: .seconds(60))
    let begun = Guarded(0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<20 {
        group.addTask {
          try await breaker.run { () async throws in begun.withLock { $0 += 1 } }
        }
      }
      await waiting(20, breaker)
      host.failStore()
      // A call that has to write finds out.
      #expect(throws: BreakerError.self) { try breaker.hold(for: .seconds(1)) }
      host.clock.advance(by: .seconds(59))
      #expect(begun.withLock { $0 } == 0)
      host.clock.advance(by: .seconds(1))
      try await group.waitForAll()
    }
    #expect(begun.withLock { $0 } == 20)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    host.repairStore()
  }

  @Test func `a permission is not handed out after the breaker has opened`() async throws {
    let breaker = try host.limited(Self.patient)
    try breaker.hold(for: .seconds(60))
    guard case .waits(let turn)? = try breaker.beginTurn(mayWait: true) else {
      Issue.record("there was no need to wait")
      return
    }
    host.clock.advance(by: .seconds(60))
    await until { turn.isAnswered }
    try host.process().store().breaker("gpu").trip()
    var answer = try turn.take(mayWait: false)
    if case .hasToWait = answer { answer = try turn.take(mayWait: true) }
    guard case .decided(.rejected(let rejection)) = answer else {
      Issue.record("\(answer)")
      return
    }
    #expect(rejection.cause == .open)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }
}

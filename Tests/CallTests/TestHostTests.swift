import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

@Suite struct `A host in memory` {
  @Test func `moves a breaker through all its states by hand`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
    for _ in 0..<2 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
    #expect(breaker.state == .open)
    host.clock.advance(by: .seconds(30) - .nanoseconds(1))
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .nanoseconds(1))
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `is one for all who ask for its store`() throws {
    let host = TestHost()
    let here = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
    let there = try host.store().breaker("api")
    try there.run {}
    #expect(throws: Refused.self) { try here.run { throw Refused() } }
    #expect(throws: Refused.self) { try there.run { throw Refused() } }
    #expect(here.state == .open)
    #expect(throws: BreakerError.self) { try here.run {} }
    #expect(try host.store().history().map(\.to) == ["open"])
  }

  @Test func `is exact to the nanosecond however long it has been up`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    for _ in 0..<100 {
      host.clock.advance(by: .seconds(86_400) + .nanoseconds(1))
      try breaker.trip(for: .nanoseconds(12_345_678_901))
      host.clock.advance(by: .nanoseconds(12_345_678_900))
      #expect(breaker.snapshot().retryAfter == .nanoseconds(1))
      host.clock.advance(by: .nanoseconds(1))
      try breaker.run {}
    }
  }

  @Test func `is nobody else's`() throws {
    let breaker = try TestHost().store().breaker("api")
    try breaker.trip()
    #expect(try TestHost().store().breaker("api").state == .closed)
  }
}

@Suite struct `A clock moved by hand` {
  @Test(.timeLimit(.minutes(10)))
  func `wakes whoever's time has come, and nobody else`() async throws {
    let clock = ManualClock()
    let woken = Journal<Int>()
    let sleepers = [3, 1, 2].map { seconds in
      Task {
        try await clock.sleep(for: .seconds(seconds))
        woken.note(seconds)
      }
    }
    for seconds in 1...3 { await clock.untilSomebodySleeps(for: .seconds(seconds)) }
    #expect(clock.sleeps == [.seconds(1), .seconds(2), .seconds(3)])
    clock.advance(by: .seconds(1))
    try await sleepers[1].value
    #expect(woken.entries == [1])
    #expect(clock.sleeps == [.seconds(1), .seconds(2)])
    clock.advance(by: .seconds(5))
    for sleeper in sleepers { try await sleeper.value }
    #expect(Set(woken.entries) == [1, 2, 3])
  }

  @Test(.timeLimit(.minutes(10))) func `lets a cancelled sleeper go`() async throws {
    let clock = ManualClock()
    let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
    await clock.untilSomebodySleeps(for: .seconds(1))
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    #expect(clock.sleeps.isEmpty)
    let cancelled = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      try await clock.sleep(for: .seconds(1))
    }
    await #expect(throws: CancellationError.self) { try await cancelled.value }
  }

  @Test(.timeLimit(.minutes(10))) func `lets go whoever waits for a sleeper in vain`() async {
    let clock = ManualClock()
    let watcher = Task { await clock.untilSomebodySleeps(for: .seconds(1)) }
    await Task.yield()
    watcher.cancel()
    await watcher.value
    let cancelled = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      await clock.untilSomebodySleeps(for: .seconds(1))
    }
    await cancelled.value
  }

  @Test(.timeLimit(.minutes(10))) func `does not make anybody sleep for no time`() async throws {
    let clock = ManualClock()
    try await clock.sleep(for: .zero)
    clock.storeTimer.block(for: .zero)
    clock.storeTimer.block(for: .zero - .seconds(1))
  }

  @Test(.timeLimit(.minutes(10))) func `holds a thread until it is moved`() async {
    let clock = ManualClock()
    let threads = Threads()
    threads.start { clock.storeTimer.block(for: .seconds(1)) }
    await clock.untilSomebodySleeps(for: .seconds(1))
    clock.advance(by: .seconds(1))
    threads.join()
    #expect(clock.sleeps.isEmpty)
  }
}

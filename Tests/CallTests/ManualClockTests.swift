import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A clock that only the test moves.
@Suite struct ManualClockTests {
  @Test(.timeLimit(.minutes(60)))
  func `a manual clock wakes only the sleepers whose time has come`() async throws {
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

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock releases a sleeper that is cancelled`() async throws {
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

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock releases a cancelled task that waits for a sleeper`() async {
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

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock does not sleep for a time of zero or less`() async throws {
    let clock = ManualClock()
    try await clock.sleep(for: .zero)
    clock.storeTimer.block(for: .zero)
    clock.storeTimer.block(for: .zero - .seconds(1))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock blocks a thread until the clock is moved`() async {
    let clock = ManualClock()
    let threads = Threads()
    threads.start { clock.storeTimer.block(for: .seconds(1)) }
    await clock.untilSomebodySleeps(for: .seconds(1))
    clock.advance(by: .seconds(1))
    threads.join()
    #expect(clock.sleeps.isEmpty)
  }
}

import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A clock that only the test moves.
@Suite struct ManualClockTests {
  @Test(.timeLimit(.minutes(60)))
  func `a manual clock wakes only the sleepers whose time has come`() async throws {
    let clock = ManualClock()
    let woken = Notes<Int>()
    let sleepers = [3, 1, 2].map { seconds in
      Task {
        try await clock.sleep(for: .seconds(seconds))
        woken.note(seconds)
      }
    }
    for seconds in 1...3 { try await clock.untilSomebodySleeps(for: .seconds(seconds)) }
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
    try await clock.untilSomebodySleeps(for: .seconds(1))
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
  func `a manual clock releases a cancelled task that waits for a sleeper`() async throws {
    let clock = ManualClock()
    let watcher = Task { try await clock.untilSomebodySleeps(for: .seconds(1)) }
    await Task.yield()
    watcher.cancel()
    await #expect(throws: CancellationError.self) { try await watcher.value }
    let cancelled = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      try await clock.untilSomebodySleeps(for: .seconds(1))
    }
    await #expect(throws: CancellationError.self) { try await cancelled.value }
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a manual clock finds a sleeper by a range and tells how long it sleeps`(
    isEarly: Bool
  ) async throws {
    let clock = ManualClock()
    let range = Duration.seconds(1)...(.seconds(2))
    let finding = isEarly ? Task { try await clock.untilSomebodySleeps(for: range) } : nil
    await Task.yield()
    let sleepers = [500, 2_001, 1_900, 1_300].map { milliseconds in
      Task { try await clock.sleep(for: .milliseconds(milliseconds)) }
    }
    for milliseconds in [500, 1_300, 1_900, 2_001] {
      try await clock.untilSomebodySleeps(for: .milliseconds(milliseconds))
    }
    // The first one that came, or the shortest of those that sleep already.
    let early = try await finding?.value
    #expect(early.map(range.contains) != false)
    #expect(try await clock.untilSomebodySleeps(for: range) == .milliseconds(1_300))
    clock.advance(by: .milliseconds(400))
    #expect(try await clock.untilSomebodySleeps(for: range) == .milliseconds(1_500))
    clock.advance(by: .seconds(2))
    for sleeper in sleepers { try await sleeper.value }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock finds a sleeper at either end of a range`() async throws {
    let clock = ManualClock()
    for seconds in [1, 2] {
      let sleeper = Task { try await clock.sleep(for: .seconds(seconds)) }
      let wait = try await clock.untilSomebodySleeps(for: .seconds(1)...(.seconds(2)))
      #expect(wait == .seconds(seconds))
      clock.advance(by: wait)
      try await sleeper.value
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock that waits too long for a sleeper names the other sleepers`() async throws {
    let clock = ManualClock()
    let limit = Duration.milliseconds(1)
    var error = await #expect(throws: NobodySleeps.self) {
      try await clock.untilSomebodySleeps(for: .seconds(1), failingAfter: limit)
    }
    #expect(error?.sleeps == [])
    #expect(
      error?.description
        == "nobody sleeps for 1.0 seconds, after 0.001 seconds of real time: "
        + "nobody sleeps at all")
    let sleepers = [3, 1].map { seconds in
      Task { try await clock.sleep(for: .milliseconds(500 + 1_000 * seconds)) }
    }
    for time in [1_500, 3_500] {
      try await clock.untilSomebodySleeps(for: .milliseconds(time))
    }
    error = await #expect(throws: NobodySleeps.self) {
      try await clock.untilSomebodySleeps(for: .seconds(2)...(.seconds(3)), failingAfter: limit)
    }
    #expect(error?.durations == .seconds(2)...(.seconds(3)))
    #expect(error?.limit == limit)
    #expect(
      error?.description
        == "nobody sleeps for 2.0 seconds to 3.0 seconds, after 0.001 seconds of real time: "
        + "there are sleepers for 1.5 seconds, 3.5 seconds")
    // A later sleeper has no waiter left.
    let late = Task { try await clock.sleep(for: .seconds(2)) }
    try await clock.untilSomebodySleeps(for: .seconds(2))
    clock.advance(by: .seconds(4))
    for sleeper in sleepers + [late] { try await sleeper.value }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock does not sleep for a time of zero or less`() async throws {
    let clock = ManualClock()
    try await clock.sleep(for: .zero)
    clock.storeTimer.block(for: .zero)
    clock.storeTimer.block(for: .zero - .seconds(1))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a manual clock blocks a thread until the clock is moved`() async throws {
    let clock = ManualClock()
    let threads = Threads()
    threads.start { clock.storeTimer.block(for: .seconds(1)) }
    try await clock.untilSomebodySleeps(for: .seconds(1))
    clock.advance(by: .seconds(1))
    threads.join()
    #expect(clock.sleeps.isEmpty)
  }
}

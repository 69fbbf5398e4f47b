internal import BreakerCore
internal import BreakerStore
public import SharedBreaker

/// A clock that moves only when you move it, and then wakes the sleepers whose time has come.
///
/// A store with this clock has no other time: open times, windows, the waits between two attempts,
/// and the deadlines of calls all follow it. You may use it from any thread.
public final class ManualClock: Clock, Sendable {
  /// A point in time, measured from the beginning of the clock.
  public struct Instant: InstantProtocol {
    /// The time since the beginning of the clock.
    public var offset: Duration

    /// Creates a point in time from the time since the beginning of the clock.
    public init(offset: Duration) { self.offset = offset }

    /// Returns the point in time that is later by a duration.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// Returns how much later the other point in time is.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Whether the left point in time is earlier.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  private let state = Guarded(State())

  /// The state of the clock; each sleeper and each watcher has a number of its own.
  private struct State {
    var time = Instant(offset: .zero)
    var sleepers: [UInt64: Sleeper] = [:]
    var watchers: [UInt64: Watcher] = [:]
    var lastID: UInt64 = 0
    var boot = Boot()

    /// How much longer each sleeper will sleep, the shortest time first.
    var sleeps: [Duration] { sleepers.values.map { time.duration(to: $0.deadline) }.sorted() }
  }

  /// A boot of the host; the first one began 1,000 seconds before the clock did.
  private struct Boot {
    var number = 1
    var began = Instant(offset: .seconds(-1_000))
  }

  private struct Sleeper {
    var deadline: Instant
    var wake: @Sendable (_ isCancelled: Bool) -> Void
  }

  private struct Watcher {
    var deadlines: ClosedRange<Instant>
    var continuation: CheckedContinuation<Duration, any Error>
  }

  /// Creates a clock that stands still.
  public init() {}

  /// The current time.
  public var now: Instant { state.withLock { $0.time } }

  /// The smallest step of the clock, a nanosecond.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Moves the clock forward, and wakes the sleepers whose time has come, the earliest first.
  ///
  /// All of them see the new time, not the time they slept until. Callbacks of jobs and of other
  /// timers run in this call, before it returns. It traps if the duration is negative.
  public func advance(by duration: Duration) {
    precondition(duration >= .zero, "a clock does not go backwards")
    let due = state.withLock { state in
      let time = state.time.advanced(by: duration)
      state.time = time
      let due = state.sleepers.filter { $0.value.deadline <= time }
      for id in due.keys { state.sleepers[id] = nil }
      return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
    }
    for (_, sleeper) in due { sleeper.wake(false) }
  }

  /// How much longer each sleeper will sleep, the shortest time first.
  public var sleeps: [Duration] { state.withLock { $0.sleeps } }

  /// Suspends the task until there is a sleeper that will wake after exactly this time.
  ///
  /// Call it before you move the clock, so that the code under test is asleep when the clock moves:
  ///
  /// ```swift
  /// let call = Task { try await breaker.run(timeout: .seconds(2)) { await neverEnding() } }
  /// try await host.clock.untilSomebodySleeps(for: .seconds(2))
  /// host.clock.advance(by: .seconds(2))
  /// await #expect(throws: CallTimedOut.self) { try await call.value }
  /// ```
  ///
  /// - Parameters:
  ///   - duration: How long the sleeper sleeps, from the present time of the clock.
  ///   - limit: How long to wait for the sleeper, in real time. A time in which all of Swift's
  ///     threads are blocked hardly counts.
  /// - Throws: ``NobodySleeps`` if there is no such sleeper by then, with those that there are
  ///   instead, or `CancellationError` if the task is cancelled, for example because a test has
  ///   reached its time limit.
  public func untilSomebodySleeps(
    for duration: Duration, failingAfter limit: Duration = .seconds(30)
  ) async throws {
    try await untilSomebodySleeps(for: duration...duration, failingAfter: limit)
  }

  /// Suspends the task until there is a sleeper that will wake after a time within a range.
  ///
  /// Use it where the time is not known exactly, as with a jitter, and then move the clock by the
  /// time that it returns:
  ///
  /// ```swift
  /// let wait = try await host.clock.untilSomebodySleeps(for: .seconds(1)...(.seconds(2)))
  /// host.clock.advance(by: wait)
  /// ```
  ///
  /// - Parameters:
  ///   - durations: How long the sleeper may sleep, from the present time of the clock.
  ///   - limit: How long to wait for the sleeper, in real time. A time in which all of Swift's
  ///     threads are blocked hardly counts.
  /// - Returns: How much longer the sleeper sleeps; if several do, the shortest of these times.
  /// - Throws: ``NobodySleeps`` if there is no such sleeper by then, with those that there are
  ///   instead, or `CancellationError` if the task is cancelled.
  @discardableResult
  public func untilSomebodySleeps(
    for durations: ClosedRange<Duration>, failingAfter limit: Duration = .seconds(30)
  ) async throws -> Duration {
    let id = nextID()
    var ending: Task<Void, any Error>?
    defer { ending?.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let asleep = state.withLock { state -> Duration? in
          let first = state.time.advanced(by: durations.lowerBound)
          let last = state.time.advanced(by: durations.upperBound)
          if let asleep = state.sleeps.first(where: durations.contains) { return asleep }
          state.watchers[id] = Watcher(deadlines: first...last, continuation: continuation)
          return nil
        }
        if let asleep { return continuation.resume(returning: asleep) }
        ending = Task {
          try await Self.pass(limit)
          stopWatching(id, throwing: NobodySleeps(for: durations, after: limit, sleeps: sleeps))
        }
        // The cancellation may have come before the watcher was added.
        if Task.isCancelled { stopWatching(id, throwing: CancellationError()) }
      }
    } onCancel: {
      stopWatching(id, throwing: CancellationError())
    }
  }

  /// Lets real time pass, in steps that each need one of Swift's threads.
  ///
  /// If other tests block all of these, the sleeper cannot come, and such a time is a single step.
  private static func pass(_ limit: Duration) async throws {
    for _ in 0..<30 { try await Task.sleep(for: limit / 30) }
  }

  private func stopWatching(_ id: UInt64, throwing error: any Error) {
    state.withLock { $0.watchers.removeValue(forKey: id) }?.continuation.resume(throwing: error)
  }

  /// Suspends the task until the clock has been moved to a time.
  ///
  /// - Throws: `CancellationError` if the task is cancelled meanwhile.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = nextID()
    let isCancelled = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        add(Sleeper(deadline: deadline) { continuation.resume(returning: $0) }, as: id)
        // The cancellation may have come before the sleeper was added.
        if Task.isCancelled { cancel(id) }
      }
    } onCancel: {
      cancel(id)
    }
    if isCancelled { throw CancellationError() }
  }

  private func nextID() -> UInt64 {
    state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
  }

  private func add(_ sleeper: Sleeper, as id: UInt64) {
    let (isDue, watchers, time) = state.withLock { state in
      guard sleeper.deadline > state.time else { return (true, [] as [Watcher], state.time) }
      state.sleepers[id] = sleeper
      let watching = state.watchers.filter { $0.value.deadlines.contains(sleeper.deadline) }
      for id in watching.keys { state.watchers[id] = nil }
      return (false, Array(watching.values), state.time)
    }
    if isDue { sleeper.wake(false) }
    for watcher in watchers {
      watcher.continuation.resume(returning: time.duration(to: sleeper.deadline))
    }
  }

  private func cancel(_ id: UInt64) {
    state.withLock { $0.sleepers.removeValue(forKey: id) }?.wake(true)
  }
}

/// Use in a store.
extension ManualClock {
  /// The clock in the form that `StoreOptions.clock` takes.
  public var storeClock: StoreClock {
    StoreClock(
      bootNanoseconds: {
        self.state.withLock { $0.boot.began.duration(to: $0.time) }.inNanoseconds
      },
      wallMilliseconds: { 1_800_000_000_000 + self.now.offset.inNanoseconds / 1_000_000 },
      bootID: { "boot \(self.state.withLock { $0.boot.number }) in memory" })
  }

  /// Begins another boot after the host was down for a time; wakes no sleepers yet.
  func beginBoot(after downtime: Duration) {
    precondition(downtime >= .zero, "a clock does not go backwards")
    state.withLock { state in
      state.time = state.time.advanced(by: downtime)
      state.boot = Boot(number: state.boot.number + 1, began: state.time)
    }
  }

  /// The clock in the form that `StoreOptions.timer` takes.
  ///
  /// Its calls, including the callbacks of jobs, run in the thread that moves the clock.
  public var storeTimer: StoreTimer {
    StoreTimer { [self] time, body in
      let id = nextID()
      let sleeper = Sleeper(deadline: now.advanced(by: time)) { if !$0 { body() } }
      add(sleeper, as: id)
      return { self.cancel(id) }
    }
  }
}

/// A test waited for a sleeper that did not come.
///
/// `untilSomebodySleeps(for:)` of a ``ManualClock`` throws it instead of waiting forever.
public struct NobodySleeps: Error, Sendable, Hashable, CustomStringConvertible {
  /// How long the sleeper was to sleep.
  public let durations: ClosedRange<Duration>

  /// How long the test waited for the sleeper, in real time.
  public let limit: Duration

  /// How much longer each of the others slept by the manual clock, the shortest time first.
  public let sleeps: [Duration]

  init(for durations: ClosedRange<Duration>, after limit: Duration, sleeps: [Duration]) {
    self.durations = durations
    self.limit = limit
    self.sleeps = sleeps
  }

  /// The sleep that the test waited for, and the sleepers that there are instead.
  public var description: String {
    let (least, most) = (durations.lowerBound, durations.upperBound)
    let wanted = least == most ? "\(least)" : "\(least) to \(most)"
    let found = sleeps.map { "\($0)" }.joined(separator: ", ")
    return "nobody sleeps for \(wanted), after \(limit) of real time: "
      + (sleeps.isEmpty ? "nobody sleeps at all" : "there are sleepers for \(found)")
  }
}

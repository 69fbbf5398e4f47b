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

  private let lock = Lock()
  private nonisolated(unsafe) var time = Instant(offset: .zero)
  private nonisolated(unsafe) var sleepers: [UInt64: Sleeper] = [:]
  private nonisolated(unsafe) var watchers: [UInt64: Watcher] = [:]
  private nonisolated(unsafe) var lastID: UInt64 = 0
  private nonisolated(unsafe) var boot = Boot()

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
    var deadline: Instant
    var continuation: CheckedContinuation<Void, Never>
  }

  /// Creates a clock that stands still.
  public init() {}

  /// The current time.
  public var now: Instant { lock.withLock { unsafe time } }

  /// The smallest step of the clock, a nanosecond.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Moves the clock forward, and wakes the sleepers whose time has come, the earliest first.
  ///
  /// All of them see the new time, not the time they slept until. Callbacks of jobs and of other
  /// timers run in this call, before it returns. It traps if the duration is negative.
  public func advance(by duration: Duration) {
    precondition(duration >= .zero, "a clock does not go backwards")
    let due = lock.withLock {
      unsafe time = unsafe time.advanced(by: duration)
      let due = unsafe sleepers.filter { unsafe $0.value.deadline <= time }
      for id in due.keys { unsafe sleepers[id] = nil }
      return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
    }
    for (_, sleeper) in due { sleeper.wake(false) }
  }

  /// How much longer each sleeper will sleep, the shortest time first.
  public var sleeps: [Duration] {
    lock.withLock { unsafe sleepers.values.map { unsafe time.duration(to: $0.deadline) } }.sorted()
  }

  /// Suspends the task until there is a sleeper that will wake after exactly this time.
  ///
  /// Call it before you move the clock, so that the code under test is asleep when the clock moves:
  ///
  /// ```swift
  /// let call = Task { try await breaker.run(timeout: .seconds(2)) { await neverEnding() } }
  /// await host.clock.untilSomebodySleeps(for: .seconds(2))
  /// host.clock.advance(by: .seconds(2))
  /// await #expect(throws: CallTimedOut.self) { try await call.value }
  /// ```
  ///
  /// If the task is cancelled, for example because a test has reached its time limit, the method
  /// returns at once.
  public func untilSomebodySleeps(for duration: Duration) async {
    let id = nextID()
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isAsleep = lock.withLock {
          let deadline = unsafe time.advanced(by: duration)
          if unsafe sleepers.values.contains(where: { $0.deadline == deadline }) { return true }
          unsafe watchers[id] = Watcher(deadline: deadline, continuation: continuation)
          return false
        }
        if isAsleep { continuation.resume() }
        if Task.isCancelled { stopWatching(id) }
      }
    } onCancel: {
      stopWatching(id)
    }
  }

  private func stopWatching(_ id: UInt64) {
    lock.withLock { unsafe watchers.removeValue(forKey: id) }?.continuation.resume()
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
    lock.withLock {
      unsafe lastID += 1
      return unsafe lastID
    }
  }

  private func add(_ sleeper: Sleeper, as id: UInt64) {
    let (isDue, watching) = lock.withLock {
      guard unsafe sleeper.deadline > time else { return (true, [] as [UInt64]) }
      unsafe sleepers[id] = sleeper
      return (false, unsafe watchers.filter { $0.value.deadline == sleeper.deadline }.map(\.key))
    }
    if isDue { sleeper.wake(false) }
    for id in watching { stopWatching(id) }
  }

  private func cancel(_ id: UInt64) {
    lock.withLock { unsafe sleepers.removeValue(forKey: id) }?.wake(true)
  }
}

/// Use in a store.
extension ManualClock {
  /// The clock in the form that `StoreOptions.clock` takes.
  public var storeClock: StoreClock {
    StoreClock(
      bootNanoseconds: {
        self.lock.withLock { unsafe self.boot.began.duration(to: self.time) }.inNanoseconds
      },
      wallMilliseconds: { 1_800_000_000_000 + self.now.offset.inNanoseconds / 1_000_000 },
      bootID: { "boot \(self.lock.withLock { unsafe self.boot.number }) in memory" })
  }

  /// Begins another boot after the host was down for a time; wakes no sleepers yet.
  func beginBoot(after downtime: Duration) {
    precondition(downtime >= .zero, "a clock does not go backwards")
    lock.withLock {
      unsafe time = unsafe time.advanced(by: downtime)
      unsafe boot = unsafe Boot(number: boot.number + 1, began: time)
    }
  }

  /// The clock in the form that `StoreOptions.timer` takes.
  ///
  /// What it calls, including the callbacks of jobs, runs in the thread that moves the clock.
  public var storeTimer: StoreTimer {
    StoreTimer { [self] time, body in
      let id = nextID()
      let sleeper = Sleeper(deadline: now.advanced(by: time)) { if !$0 { body() } }
      add(sleeper, as: id)
      return { self.cancel(id) }
    }
  }
}

internal import BreakerCore
internal import BreakerStore
public import SharedBreaker

/// A clock that moves only by hand, and whose sleepers wake when it gets to their time.
///
/// It is all the time that a store knows: open times and windows, the waits between two attempts,
/// and the deadlines of calls. It may be used from any thread.
public final class ManualClock: Clock, Sendable {
  /// A point in time: how long after the clock's beginning.
  public struct Instant: InstantProtocol {
    /// The time since the clock's beginning.
    public var offset: Duration

    /// Makes a point in time that lies so long after the clock's beginning.
    public init(offset: Duration) { self.offset = offset }

    /// The point in time that lies so much later.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// How much later the other point in time is.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Orders points in time, earlier ones first.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  private let lock = Lock()
  private nonisolated(unsafe) var time = Instant(offset: .zero)
  private nonisolated(unsafe) var sleepers: [UInt64: Sleeper] = [:]
  private nonisolated(unsafe) var watchers: [UInt64: Watcher] = [:]
  private nonisolated(unsafe) var lastID: UInt64 = 0
  private nonisolated(unsafe) var boot = Boot()

  /// The first one began long before the clock did.
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

  /// Makes a clock that stands still.
  public init() {}

  /// The time that it is.
  public var now: Instant { lock.withLock { unsafe time } }

  /// The smallest step of the clock.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Lets time pass, and wakes those whose time has come, the earliest first.
  ///
  /// The clock shows its new time to all of them.
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

  /// How long each of those that sleep now will sleep on, the shortest time first.
  public var sleeps: [Duration] {
    lock.withLock { unsafe sleepers.values.map { unsafe time.duration(to: $0.deadline) } }.sorted()
  }

  /// Suspends the task until somebody sleeps who will wake after exactly this time.
  ///
  /// A test that moves the clock for somebody first waits until he is asleep. If the task is
  /// cancelled, as it is when a test has used up its time, it goes on at once.
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
        // The cancellation may have come before there was anybody to wake.
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

/// As a store takes it.
extension ManualClock {
  /// The clock of a store.
  public var storeClock: StoreClock {
    StoreClock(
      bootNanoseconds: {
        self.lock.withLock { unsafe self.boot.began.duration(to: self.time) }.inNanoseconds
      },
      wallMilliseconds: { 1_800_000_000_000 + self.now.offset.inNanoseconds / 1_000_000 },
      bootID: { "boot \(self.lock.withLock { unsafe self.boot.number }) in memory" })
  }

  /// Begins another boot after a time in which the host was down; wakes nobody yet.
  func beginBoot(after downtime: Duration) {
    precondition(downtime >= .zero, "a clock does not go backwards")
    lock.withLock {
      unsafe time = unsafe time.advanced(by: downtime)
      unsafe boot = unsafe Boot(number: boot.number + 1, began: time)
    }
  }

  /// The timer of a store.
  ///
  /// What it calls, the callbacks of jobs included, runs in the thread that moves the clock.
  public var storeTimer: StoreTimer {
    StoreTimer { [self] time, body in
      let id = nextID()
      let sleeper = Sleeper(deadline: now.advanced(by: time)) { if !$0 { body() } }
      add(sleeper, as: id)
      return { self.cancel(id) }
    }
  }
}

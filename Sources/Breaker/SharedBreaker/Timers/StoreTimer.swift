internal import BreakerCore
internal import BreakerStore
internal import Glibc

/// How calls wait: between two attempts, and for their timeout.
///
/// A timer is set in ``StoreOptions``, like the clock. With a timer that you control you can test
/// code that waits without waiting, and without changing that code.
public struct StoreTimer: Sendable {
  private let schedule: @Sendable (Duration, @escaping @Sendable () -> Void) -> @Sendable () -> Void

  /// Suspends a task; if nil, the schedule does.
  private let sleepFor: (@Sendable (Duration) async throws -> Void)?

  /// Blocks a thread; if nil, the schedule does.
  private let blockFor: (@Sendable (Duration) -> Void)?

  /// Calls a function that may block; if nil, it is called in the thread of the timer.
  private let callInHelper: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

  /// Creates a timer for tests from a function that calls another one later.
  ///
  /// - Parameter schedule: Calls a body once when a time has passed, in any thread. The function it
  ///   returns cancels that, if it is called earlier. The callbacks of a job run in the same
  ///   thread.
  public init(
    schedule:
      @escaping @Sendable (
        _ time: Duration, _ body: @escaping @Sendable () -> Void
      ) -> @Sendable () -> Void
  ) {
    self.schedule = schedule
    sleepFor = nil
    blockFor = nil
    callInHelper = nil
  }

  /// Creates a timer for tests from two ways to wait.
  ///
  /// - Parameters:
  ///   - sleep: Suspends a task for a time, and throws if the task is cancelled meanwhile.
  ///   - block: Blocks a thread for a time.
  public init(
    sleep: @escaping @Sendable (Duration) async throws -> Void,
    block: @escaping @Sendable (Duration) -> Void
  ) {
    schedule = { time, body in
      let task = Task {
        do { try await sleep(time) } catch { return }
        body()
      }
      return { task.cancel() }
    }
    sleepFor = sleep
    blockFor = block
    callInHelper = nil
  }

  /// The timer of the host, which continues to count while the host is asleep.
  ///
  /// One thread of the process, started at the first use, keeps the time for all calls. It is not
  /// one of Swift's threads, so it is punctual even while code blocks all of those. After a sleep
  /// of the host, it can be up to 10 seconds late.
  public static let system = StoreTimer()

  private init() {
    schedule = { time, body in
      let alarm = TimerThread.shared.call(after: time, body)
      return { TimerThread.shared.cancel(alarm) }
    }
    sleepFor = nil
    blockFor = { Self.holdThread(for: $0) }
    callInHelper = { HelperThreads.shared.call($0) }
  }

  /// Creates what would otherwise be created at its first use; starts no thread.
  static func warmUp() { _ = HelperThreads.shared }
}

/// Waiting.
extension StoreTimer {
  /// Calls a body after a time; the function it returns cancels that.
  ///
  /// The body must return soon, because others wait for the same timer. It passes work that may
  /// block to `callAside`.
  package func call(
    after time: Duration, _ body: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void { schedule(max(.zero, min(time, Self.century)), body) }

  /// Calls a body that may block.
  package func callAside(_ body: @escaping @Sendable () -> Void) {
    if let callInHelper { callInHelper(body) } else { body() }
  }

  package nonisolated(nonsending) func sleep(for time: Duration) async throws {
    try Task.checkCancellation()
    guard time > .zero else { return }
    if let sleepFor { return try await sleepFor(min(time, Self.century)) }
    // A race without work: only the deadline or a cancellation can end it.
    if case .cancelled = await DeadlineRace<Void>.run(nil, against: self, time) {
      throw CancellationError()
    }
  }

  package func block(for time: Duration) {
    // Even the shortest sleep takes the kernel some time.
    guard time > .zero else { return }
    if let blockFor { return blockFor(min(time, Self.century)) }
    let gate = Gate()
    _ = call(after: time) { gate.open() }
    gate.wait()
  }

  private static func holdThread(for time: Duration) {
    let clock = ContinuousClock()
    let end = clock.now.advanced(by: time)
    // A signal cuts a sleep short, and one `usleep` takes little more than an hour at most.
    while case let left = clock.now.duration(to: end).inNanoseconds, left > 0 {
      usleep(UInt32(clamping: left / 1_000 + 1))
    }
  }

  /// The longest time that a timer is asked for.
  ///
  /// Swift traps on durations whose nanoseconds or seconds do not fit into 64 bits.
  private static let century = Duration.seconds(100 * 31_557_600)
}

/// Blocks a thread until another thread opens the gate.
@safe private final class Gate: Sendable {
  // The pointer never changes, and threads may use a semaphore at the same time.
  private nonisolated(unsafe) let semaphore: UnsafeMutablePointer<sem_t>

  init() {
    unsafe semaphore = .allocate(capacity: 1)
    unsafe sem_init(semaphore, 0, 0)
  }

  deinit {
    unsafe sem_destroy(semaphore)
    unsafe semaphore.deallocate()
  }

  func open() { unsafe sem_post(semaphore) }

  func wait() { while unsafe sem_wait(semaphore) != 0 {} }
}

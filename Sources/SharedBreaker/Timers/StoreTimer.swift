internal import BreakerCore
internal import BreakerStore
internal import Glibc

/// How a call waits: between two attempts, and for the end of the time that it is given.
///
/// It belongs to ``StoreOptions``, beside the clock, so that code that waits is tested without
/// waiting and without being written for it.
public struct StoreTimer: Sendable {
  private let schedule: @Sendable (Duration, @escaping @Sendable () -> Void) -> @Sendable () -> Void

  /// How a task sleeps; by the schedule if nil.
  private let sleepFor: (@Sendable (Duration) async throws -> Void)?

  /// How a thread is held; by the schedule if nil.
  private let blockFor: (@Sendable (Duration) -> Void)?

  /// Calls what may block; where it is, if nil.
  private let callInHelper: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

  /// Makes a timer for tests out of the one thing that a timer has to do.
  ///
  /// - Parameter schedule: Calls a body once when a time has passed, in any thread. It returns what
  ///   takes that back if it is called earlier. The callbacks of a job run in that thread too.
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

  /// Makes a timer for tests out of two ways to wait.
  ///
  /// - Parameters:
  ///   - sleep: Suspends a task for a time, and throws if the task is cancelled meanwhile.
  ///   - block: Holds a thread for a time.
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

  /// The host's own time, which goes on while the host is asleep.
  ///
  /// One thread of the process, started at the first use, keeps the time of all calls. It is not one of
  /// Swift's, so it is punctual also while code blocks all of those.
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

  /// Makes what would else be made at its first use, and starts no thread.
  static func makeWhatIsMadeOnce() { _ = HelperThreads.shared }
}

/// Waiting.
extension StoreTimer {
  /// Calls a body after a time; what is returned takes that back.
  ///
  /// The body returns soon, because others wait for the same timer; it leaves to `callAside` what may
  /// block.
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
    // A race without work, which only the time or the caller can end.
    if case .cancelled = await DeadlineRace<Void>.run(nil, against: self, time) {
      throw CancellationError()
    }
  }

  package func block(for time: Duration) {
    // The shortest sleep that the kernel knows is longer than none.
    guard time > .zero else { return }
    if let blockFor { return blockFor(min(time, Self.century)) }
    let gate = Gate()
    _ = call(after: time) { gate.open() }
    gate.wait()
  }

  private static func holdThread(for time: Duration) {
    let clock = ContinuousClock()
    let end = clock.now.advanced(by: time)
    // A signal cuts a sleep short, and the longest one is little more than an hour.
    while case let left = clock.now.duration(to: end).inNanoseconds, left > 0 {
      usleep(UInt32(clamping: left / 1_000 + 1))
    }
  }

  /// No timer is asked for more: Swift traps on times that have more nanoseconds, or seconds, than fit
  /// into 64 bits.
  private static let century = Duration.seconds(100 * 31_557_600)
}

internal import BreakerCore
internal import Glibc

/// How a call waits: between two attempts, and for the end of the time that it is given.
///
/// It belongs to ``StoreOptions``, beside the clock, so that code that waits is tested without
/// waiting and without being written for it.
public struct StoreTimer: Sendable {
  private let sleepFor: @Sendable (Duration) async throws -> Void
  private let blockFor: @Sendable (Duration) -> Void

  /// Makes a timer for tests.
  ///
  /// - Parameters:
  ///   - sleep: Suspends a task for a time, and throws if the task is cancelled meanwhile.
  ///   - block: Holds a thread for a time.
  public init(
    sleep: @escaping @Sendable (Duration) async throws -> Void,
    block: @escaping @Sendable (Duration) -> Void
  ) {
    sleepFor = sleep
    blockFor = block
  }

  /// The host's own time, which goes on while the host is asleep.
  public static let system = StoreTimer(
    sleep: { try await Task.sleep(for: min($0, century), clock: .continuous) }, block: holdThread)

  /// Swift traps if it is to sleep for more than three.
  private static let century = Duration.seconds(100 * 31_557_600)

  package nonisolated(nonsending) func sleep(for time: Duration) async throws {
    try Task.checkCancellation()
    if time > .zero { try await sleepFor(time) }
  }

  package func block(for time: Duration) {
    // The shortest sleep that the kernel knows is longer than none.
    if time > .zero { blockFor(time) }
  }

  private static func holdThread(for time: Duration) {
    let clock = ContinuousClock()
    let end = clock.now.advanced(by: min(time, century))
    // A signal cuts a sleep short, and the longest one is little more than an hour.
    while case let left = clock.now.duration(to: end).inNanoseconds, left > 0 {
      usleep(UInt32(clamping: left / 1_000 + 1))
    }
  }
}

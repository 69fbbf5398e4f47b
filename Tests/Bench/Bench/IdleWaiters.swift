import Glibc
import SharedBreaker
import TestSupport

/// Callers of many processes that wait for room, while all of it is taken.
enum IdleWaiters {
  static let processes = 64
  static let threads = 16

  /// The most callers that may wait, so a few fewer than there are.
  private static let queue = 1_000

  private static func breaker(in room: Room) throws -> Breaker {
    let policy = BreakerPolicy(
      maxFailures: 5, maxConcurrent: 1, queue: queue, queueTimeout: .seconds(3_600))
    return try room.openStore().breaker("waits", policy: policy, onStoreFailure: .throw)
  }

  /// The child's side: lets threads wait, and reports the part of a processor that the process used.
  static func run(in room: Room, for duration: Double) throws {
    let breaker = try breaker(in: room)
    let waiters = Threads()
    for _ in 0..<threads { waiters.start { try? breaker.run {} } }
    let start = try Parent.awaitStart()
    while seconds() < start { usleep(1_000) }
    let before = processorSeconds
    usleep(UInt32(duration * 1e6))
    Parent.report([(processorSeconds - before) / duration])
    Parent.awaitEnd()
    _exit(0)
  }

  /// The part of a processor that all of them use together, in per cent.
  static func percent(in room: Room, for duration: Double) throws -> Double {
    let breaker = try breaker(in: room)
    let holder = try breaker.acquire().shared()
    return try withExtendedLifetime(holder) {
      let children = try (0..<processes).map { _ in
        try Children.start(.waits, [room.path, "\(duration)"])
      }
      let deadline = seconds() + 60
      while waiting(for: breaker) < queue, seconds() < deadline { usleep(10_000) }
      // Until those that came last have found out that the others look.
      usleep(2_000_000)
      try Children.begin(children)
      let parts = try children.map { try Children.numbers($0).first ?? .nan }
      guard waiting(for: breaker) == queue else { throw BenchError("not all wait") }
      return parts.reduce(0, +) * 100
    }
  }

  private static func waiting(for breaker: Breaker) -> Int {
    breaker.snapshot().limit?.waiters.count ?? 0
  }

  private static var processorSeconds: Double {
    var time = timespec()
    unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}

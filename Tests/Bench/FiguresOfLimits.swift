import BenchReport
import BenchShim
import Glibc
import SharedBreaker
import TestSupport

extension Bench {
  /// What a call under a limit costs, beside what else counts calls on a host.
  func limitFigures() throws -> [Figure] {
    let topic = "calls under a limit"
    let healthy = "run, consecutive failures"
    let alone = [
      try figure(
        topic, "run, max-concurrent", .limited, against: .over(healthy), goal: .atMost(20).compared),
      try figure(topic, "acquire and succeed, max-concurrent", .limitedPermit),
      try figure(topic, "rejected as busy", .busy),
      try figure(topic, "System V semop pair, with undo", .semaphore),
      try figure(topic, "flock pair", .fileLock),
    ]
    let together = "run, max-concurrent, 2 processes"
    let subject = Subject(
      topic: topic, name: together, unit: "ns", goal: .atMost(100), samples: "mean of 2 medians")
    let shared = Figure(subject: subject) {
      try Caller.nanoseconds(.limited, processes: 2, in: room, for: scale.seconds)
    }
    return alone + [shared] + (try handOverFigures(topic))
  }

  /// How long it takes from the end of a call to the beginning of that of another thread that sleeps.
  private func handOverFigures(_ topic: String) throws -> [Figure] {
    let floor = "futex hand-over between 2 threads"
    let count = Int64(scale.isQuick ? 2_000 : 20_000)
    let breaker = try store.breaker(
      "handed-over", policy: BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(600)))
    func figure(
      _ name: String, _ comparison: Comparison?, _ goal: Goal?,
      _ body: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: "ns", comparison: comparison, goal: goal,
        samples: "\(count) hand-overs")
      return Figure(subject: subject, measure: body)
    }
    return [
      figure(floor, nil, nil) { bs_futex_hand_overs(count) },
      figure("turn handed to the next of 2 threads", .times(floor), .atMost(1.5).compared) {
        try LimitLoops.handOver(breaker, count)
      },
    ]
  }
}

/// Calls under a limit, and other ways to count them.
enum LimitLoops {
  static func permits(_ breaker: Breaker) -> Loop {
    { count in for _ in 0..<count { try breaker.acquire().succeed() } }
  }

  /// Calls of a breaker all of whose room is taken for as long as the loop is kept.
  static func busy(_ breaker: Breaker) throws -> Loop {
    let holder = try breaker.acquire().shared()
    return { count in
      try withExtendedLifetime(holder) {
        for _ in 0..<count {
          if case .permitted = try breaker.decide() { throw BenchError("let through") }
        }
      }
    }
  }

  /// Lets two threads make calls of a breaker whose limit is 1, and returns how many nanoseconds lie between
  /// the work of the one and that of the other.
  static func handOver(_ breaker: Breaker, _ count: Int64) throws -> Double {
    nonisolated(unsafe) let turns = UnsafeMutablePointer<bs_turns>.allocate(capacity: 1)
    unsafe turns.initialize(to: bs_turns())
    defer { unsafe turns.deallocate() }
    let errors = Guarded<[any Error]>([])
    Threads.run(2) { side in
      do {
        for _ in 0..<count / 2 { try breaker.run { unsafe bs_have_turn(turns, Int32(side)) } }
      } catch {
        errors.withLock { $0.append(error) }
      }
    }
    if let error = errors.withLock({ $0.first }) { throw error }
    let (sum, handed) = unsafe (turns.pointee.nanoseconds, turns.pointee.count)
    guard handed > count / 2 else { throw BenchError("only \(handed) turns were handed over") }
    return Double(sum) / Double(handed)
  }

  static func semaphore(_ count: Int) throws {
    if bs_semaphore_pairs(Int64(count)) != 0 { throw BenchError("no semaphore: \(errno)") }
  }

  static func fileLock(in room: Room) -> Loop {
    let path = room.file("lock")
    return { count in
      if unsafe bs_flock_pairs(path, Int64(count)) != 0 { throw BenchError("no lock: \(errno)") }
    }
  }
}

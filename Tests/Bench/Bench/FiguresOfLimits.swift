import BenchShim
import Glibc
import SharedBreaker

extension Benchmark {
  /// The cost of a call under a limit, beside other ways to count the calls of a host.
  func limitFigures() throws -> [Figure] {
    let topic = "calls under a limit"
    let healthy = "run, consecutive failures"
    let alone = [
      try figure(
        topic, "run, max-concurrent", .limited, against: .over(healthy), goal: .atMost(20).compared),
      try figure(
        topic, "run, rate", .rated, against: .over("run, max-concurrent"),
        goal: .atMost(20).compared),
      try figure(topic, "acquire and succeed, max-concurrent", .limitedPermit),
      try figure(topic, "rejected as busy", .busy),
      try figure(topic, "System V semop pair, with undo", .semaphore),
      try figure(topic, "flock pair", .fileLock),
    ]
    let shared = [(Load.limited, "max-concurrent", 100.0), (.rated, "rate", 150)].map {
      load, word, most in
      let subject = Subject(
        topic: topic, name: "run, \(word), 2 processes", unit: "ns", goal: .atMost(most),
        samples: "mean of 2 medians")
      return Figure(subject: subject) {
        try Caller.nanoseconds(load, processes: 2, in: room, for: scale.seconds)
      }
    }
    return alone + shared + handOverFigures(topic) + [idleFigure(topic)]
  }

  /// The cost of waiting callers, some of which look after processes that have died.
  private func idleFigure(_ topic: String) -> Figure {
    let seconds = scale.isQuick ? 5.0 : 20.0
    let subject = Subject(
      topic: topic, name: "1,000 that wait in 64 processes, of one processor", unit: "%",
      goal: .atMost(0.5), samples: "\(Int(seconds)) s")
    return Figure(subject: subject, isOnce: true) {
      try IdleWaiters.percent(in: room.inner("waits"), for: seconds)
    }
  }

  /// How long it takes from the end of a call to the beginning of that of another process that sleeps.
  private func handOverFigures(_ topic: String) -> [Figure] {
    let floor = "futex hand-over between 2 processes"
    let count = scale.isQuick ? 4_000 : 20_000
    let room = room
    func figure(
      _ name: String, _ way: HandOver, _ comparison: Comparison? = nil, _ goal: Goal? = nil
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: "ns", comparison: comparison, goal: goal,
        samples: "median of \(count) hand-overs")
      return Figure(subject: subject) { try way.nanoseconds(of: count, in: room) }
    }
    return [
      figure(floor, .futex),
      figure(
        "turn handed to the next of 2 processes", .limit, .times(floor), .atMost(1.5).compared),
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

import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// Processes that make healthy calls at the same time.
enum Caller {
  static func run(_ load: Load, in room: Room, for duration: Double) throws {
    let loop = try load.loop(in: room)
    try loop(100)
    let stretch = try Stretch(loop, from: Parent.awaitStart(), for: duration)
    Parent.report([stretch.median])
  }

  /// The nanoseconds of a call in each of several processes that make calls at the same time.
  static func nanoseconds(
    _ load: Load, processes: Int, in room: Room, for duration: Double
  ) throws -> Double {
    let results = try Children.run(processes, .calls, [load.rawValue, room.path, "\(duration)"])
    return results.compactMap(\.first).reduce(0, +) / Double(processes)
  }
}

/// Several processes or threads that write to one store at the same time.
enum Writer {
  static func run(_ load: Load, in room: Room, for duration: Double) throws {
    let loop = try load.loop(in: room)
    try loop(1)
    let (writes, longest) = try write(loop, from: Parent.awaitStart(), for: duration)
    Parent.report([Double(writes), longest * 1e3])
  }

  /// The number of writes in a time, and the longest of them in seconds.
  static func write(
    _ loop: Loop, from start: Double, for duration: Double
  ) throws -> (Int, longest: Double) {
    while seconds() < start { usleep(200) }
    var writes = 0
    var longest = 0.0
    var now = seconds()
    while now < start + duration {
      try loop(1)
      let after = seconds()
      longest = max(longest, after - now)
      writes += 1
      now = after
    }
    return (writes, longest)
  }

  /// The result of several processes that write at the same time.
  struct Result {
    var rate: Double

    /// The writes of the process with the fewest, as a share of the mean.
    var fewest: Double
    var longestMilliseconds: Double
  }

  static func run(_ load: Load, processes: Int, in room: Room, for duration: Double) throws
    -> Result
  {
    try prepare(load, in: room)
    let results = try Children.run(processes, .writes, [load.rawValue, room.path, "\(duration)"])
    let writes = results.compactMap(\.first)
    let total = writes.reduce(0, +)
    return Result(
      rate: total / duration, fewest: (writes.min() ?? 0) * Double(processes) / total,
      longestMilliseconds: results.compactMap(\.last).max() ?? .nan)
  }

  private static func prepare(_ load: Load, in room: Room) throws {
    // Done once here, because processes that change the journal mode at once do not wait for each
    // other.
    try load.loop(in: room)(1)
    // Reset, because the failures of all rounds together could open the breaker.
    if load == .failure { try FailureLoops.breaker("failing", of: room.openStore()).reset() }
  }

  /// The failures a second that several threads of this process record at one breaker.
  static func rate(threads: Int, on store: SharedStore, for duration: Double) throws -> Double {
    let breaker = try FailureLoops.breaker("failing", of: store)
    try breaker.reset()
    let loop = FailureLoops.failures(breaker)
    try loop(1)
    let start = seconds() + 0.01
    nonisolated(unsafe) let shared = loop
    let writes = Atomic<Int>(0)
    let failures = Atomic<Int>(0)
    Threads.run(threads) { _ in
      do {
        let (count, _) = try unsafe write(shared, from: start, for: duration)
        writes.add(count, ordering: .relaxed)
      } catch {
        failures.add(1, ordering: .relaxed)
      }
    }
    guard failures.load(ordering: .relaxed) == 0 else { throw BenchError("a thread failed") }
    return Double(writes.load(ordering: .relaxed)) / duration
  }
}

/// A process that fails at a steady rate, at a breaker of its own.
enum Neighbour {
  static func run(in room: Room, rate: Double, for duration: Double) throws {
    let loop = try Load.failure.loop(in: room)
    try loop(1)
    let start = try Parent.awaitStart()
    var done = 0
    while seconds() < start + duration {
      let due = start + Double(done) / rate
      let wait = due - seconds()
      if wait > 0 { usleep(UInt32(wait * 1e6)) }
      try loop(1)
      done += 1
    }
    Parent.report([Double(done) / duration])
  }

  /// The mean nanoseconds of a healthy call beside such a process, and the rate that it kept.
  static func disturb(
    _ loop: Loop, in room: Room, rate: Double, for duration: Double
  ) throws -> (nanoseconds: Double, rate: Double) {
    let child = try Children.start(.neighbour, [room.path, "\(rate)", "\(duration)"])
    try Children.begin([child])
    let stretch = try Stretch(loop, from: seconds() + 0.05, for: duration - 0.15)
    return (stretch.mean, try Children.numbers(child).first ?? .nan)
  }
}

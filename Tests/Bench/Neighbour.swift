import Glibc
import SharedBreaker

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

import BenchReport

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

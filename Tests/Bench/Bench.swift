import BenchReport
import SharedBreaker

/// One run of the benchmark: its directory, its scale, and everything it measures.
struct Bench {
  var room: Room
  var scale: Scale
  var store: SharedStore
  var peers: Peers?

  init(room: Room, scale: Scale, peers: Peers?) {
    self.room = room
    self.scale = scale
    self.peers = peers
    store = room.openStore()
  }

  /// Floors come first, because a row is compared with an earlier one of the same round.
  func figures() throws -> [Figure] {
    try floorFigures() + healthyFigures() + rejectionFigures() + costFigures() + tripFigures()
      + failureFigures() + writerFigures() + neighbourFigures() + timeoutFigures()
      + blockedFigures() + manyFigures() + commandFigures() + runFigures() + memoryFigures()
      + fleetFigures()
  }

  /// A figure from the best of several repetitions of a load in this process.
  func figure(
    _ topic: String, _ name: String, _ load: Load, against comparison: Comparison? = nil,
    goal: Goal? = nil
  ) throws -> Figure {
    let loop = try load.loop(in: room, on: store)
    let subject = Subject(
      topic: topic, name: name, unit: "ns", comparison: comparison, goal: goal,
      samples: "best of 10")
    return Figure(subject: subject) { try bestNanoseconds(loop) }
  }
}

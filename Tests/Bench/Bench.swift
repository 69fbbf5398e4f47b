import BenchReport
import SharedBreaker

/// One run: where it takes place, how much it measures, and all that it measures.
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

  /// Floors come first, for a row is compared with one that the round has had.
  func figures() throws -> [Figure] {
    try floorFigures() + healthyFigures() + rejectionFigures() + costFigures() + tripFigures()
      + failureFigures() + writerFigures() + neighbourFigures() + timeoutFigures()
      + blockedFigures() + manyFigures() + commandFigures() + runFigures() + memoryFigures()
  }

  /// The best of some repetitions of a load in this process.
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

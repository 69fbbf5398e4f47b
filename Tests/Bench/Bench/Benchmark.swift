import Glibc
import SharedBreaker
import TestSupport

/// One run of the benchmark: its directory, its scale, and everything it measures.
struct Benchmark {
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
    try floorFigures() + healthyFigures() + rejectionFigures() + limitFigures() + costFigures()
      + tripFigures()
      + failureFigures() + writerFigures() + neighbourFigures() + timeoutFigures()
      + blockedFigures() + manyFigures() + commandFigures() + forkFigures() + memoryFigures()
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

/// The directory of one run, and the paths in it.
struct Room {
  var path: String

  var store: String { file("store.db") }

  /// Creates a room inside this one, for something that must not share a store.
  func inner(_ name: String) throws -> Room {
    let inner = Room(path: file(name))
    if !Files.exists(inner.path) { try Files.makeDirectory(inner.path, mode: 0o700) }
    return inner
  }

  /// Opens a store that waits as long as the raw one, so that no call fails on a busy machine.
  func openStore() -> SharedStore {
    SharedStore(path: store, options: StoreOptions(lockTimeout: .seconds(10)))
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }
}

/// How long and how often things are measured.
struct Scale {
  var isQuick: Bool

  var rounds: Int { isQuick ? 3 : 7 }

  /// The number of transactions in one value.
  var writes: Int { isQuick ? 2_000 : 10_000 }

  /// How long several processes or threads work for one value.
  var seconds: Double { isQuick ? 0.3 : 1 }
  var trips: Int { isQuick ? 2_000 : 100_000 }
  var breakers: Int { 100_000 }
}

/// A short description of the machine that is measured.
func host() throws -> String {
  let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
  let lines = String(decoding: try Files.read("/proc/cpuinfo"), as: UTF8.self).split(
    separator: "\n")
  let model =
    lines.first { $0.hasPrefix("model name") }?
    .split(separator: ":").last.map { $0.drop { $0 == " " } } ?? "processor"
  return "\(processors) x \(model), SQLite \(SharedStore.sqliteVersion)"
}

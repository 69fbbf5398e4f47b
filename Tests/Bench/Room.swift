import SharedBreaker
import TestSupport

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

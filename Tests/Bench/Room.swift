import SharedBreaker
import TestSupport

/// The directory of one run, and what lies where in it.
struct Room {
  var path: String

  var store: String { file("store.db") }

  /// A room of its own for something that must meet nobody else.
  func inner(_ name: String) throws -> Room {
    let inner = Room(path: file(name))
    if !Files.exists(inner.path) { try Files.makeDirectory(inner.path, mode: 0o700) }
    return inner
  }

  /// A store that waits as long as the raw one does, so that a busy machine makes no call fail.
  func openStore() -> SharedStore {
    SharedStore(path: store, options: StoreOptions(lockTimeout: .seconds(10)))
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }
}

/// How much is measured.
struct Scale {
  var isQuick: Bool

  var rounds: Int { isQuick ? 3 : 7 }

  /// Transactions behind one value.
  var writes: Int { isQuick ? 2_000 : 10_000 }

  /// How long several processes or threads are at work for one value.
  var seconds: Double { isQuick ? 0.3 : 1 }
  var trips: Int { isQuick ? 2_000 : 100_000 }
  var breakers: Int { 100_000 }
}

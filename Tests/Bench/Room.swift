/// The directory of one run, and what lies where in it.
struct Room {
  var path: String

  var store: String { file("store.db") }

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

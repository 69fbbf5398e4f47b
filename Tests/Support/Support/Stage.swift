internal import Glibc
package import SharedBreaker

/// The store of a test with several processes, and a clock that the test moves.
package struct Stage: Sendable {
  package let directory: TemporaryDirectory
  package let clock: TestClock

  package init() throws {
    directory = try TemporaryDirectory()
    clock = try TestClock(path: directory.file("clock"))
  }

  package var store: String { directory.store }

  package func puppet(_ options: String...) throws -> Puppet { try Puppet(on: self, options) }

  /// Starts puppets whose breaker has a policy.
  package func puppets(
    _ count: Int, _ policy: String, options: [String] = []
  ) throws -> [Puppet] {
    let puppets = try (0..<count).map { _ in try Puppet(on: self, options) }
    let answers = try puppets.ask("open \(policy)")
    guard answers.allSatisfy({ $0 == "ok" }) else { throw SupportError("\(answers)") }
    return puppets
  }

  /// The store as this process uses it.
  package func sharedStore() -> SharedStore {
    // Long enough for a busy machine. A test about the timeout has options of its own.
    SharedStore(
      path: store, options: StoreOptions(lockTimeout: .seconds(60), clock: clock.clock))
  }

  /// How often the breaker went from one state to another.
  package func transitions(_ from: String, _ to: String) throws -> Int {
    try Database.transitions(store, from: from, to: to)
  }
}

/// How often a test repeats something that must never go wrong.
///
/// `SHARED_BREAKER_ROUNDS` sets the number for the longest test, which is 1,000 by default. The
/// other tests follow in proportion.
package func rounds(_ usual: Int) -> Int {
  guard let text = unsafe getenv("SHARED_BREAKER_ROUNDS"),
    let longest = Int(unsafe String(cString: text))
  else { return usual }
  return max(1, usual * longest / 1_000)
}

import SharedBreaker
import SharedBreakerTesting
import TestSupport

/// A store that is the same for every run, byte for byte.
enum FuzzStore {
  /// One policy for each kind of window; five failures are the fewest that open any of them.
  static let policies: [(name: String, policy: BreakerPolicy)] = [
    ("row", BreakerPolicy(maxFailures: 5, openFor: openFor)),
    ("time", BreakerPolicy(failureRate: 0.5, window: window, minCalls: 10, openFor: openFor)),
    ("last", BreakerPolicy(failureRate: 0.5, last: 20, minCalls: 10, openFor: openFor)),
  ]
  static let fewestFailures = 5
  static let openFor = Duration.seconds(30)
  static let window = Duration.seconds(10)

  private static let directory: TemporaryDirectory = made { try TemporaryDirectory() }
  static var path: String { directory.file("breakers.db") }
  static let suffixes = ["", "-wal", "-shm", "-counters"]

  /// The files of the store in the order of their suffixes, without the index of the log.
  static let seed: [[UInt8]] = made {
    try makeSeed()
    return try ["", "-wal", "-counters"].map { try Files.read(path + $0) }
  }

  /// Restores the store with the given files, and returns a clock at the time it was left.
  static func restore(database: [UInt8], log: [UInt8], counters: [UInt8]?) throws -> ManualClock {
    for path in try Files.all(in: directory.path) { Files.removeAll(path) }
    try Files.write(path, database)
    if !log.isEmpty { try Files.write(path + "-wal", log) }
    if let counters { try Files.write(path + "-counters", counters) }
    let clock = ManualClock()
    clock.advance(by: timeOfSeed)
    return clock
  }

  private static let timeOfSeed = Duration.seconds(1_000)

  /// Values that are random or come from the host are set to fixed ones, so that the same input
  /// always meets the same files.
  private static func makeSeed() throws {
    let clock = ManualClock()
    clock.advance(by: timeOfSeed)
    let options = StoreOptions(program: "fuzz", clock: clock.storeClock)
    let first = SharedStore(path: path, options: options)
    try first.connect()
    first.close()
    try Database.rows(path, "UPDATE store SET identity = 1")
    let store = SharedStore(path: path, options: options)
    for (name, policy) in policies { try use(store.breaker(name, policy: policy)) }
    // The store is still open, so the latest changes stay in the log.
    try Database.rows(
      path,
      """
      PRAGMA wal_checkpoint(TRUNCATE); UPDATE event SET pid = 1; UPDATE declaration SET pid = 1;
      UPDATE breaker SET created_at_ms = 0, counters_key = id;
      """)
    store.close()
    for id in 1...policies.count {
      try CounterWords(ofStore: path).set(word: 1, ofBreaker: id, to: UInt64(id))
    }
  }

  private static func use(_ breaker: Breaker) throws {
    for round in 0..<8 {
      let permit = try breaker.acquire()
      if round == 6 { permit.fail(error: "refused") } else { permit.succeed() }
    }
    try breaker.force(.observe, for: .seconds(60), reason: "a look")
    try breaker.force(.automatic)
    // Resets the generation, the window and the failures, because every run counts its own.
    try breaker.reset()
  }

  /// Creates something that every run needs, or ends the process.
  private static func made<Value>(_ make: () throws -> Value) -> Value {
    do { return try make() } catch { fatalError("\(error)") }
  }
}

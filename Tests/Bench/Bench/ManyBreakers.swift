import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// A store with very many breakers.
enum ManyBreakers {
  static func room(_ room: Room, _ count: Int) throws -> Room { try room.inner("many-\(count)") }

  static func name(_ index: Int) -> String { "resource-\(index)" }

  static func make(in room: Room, count: Int) throws {
    let store = room.openStore()
    for index in 0..<count {
      _ = try store.breaker(
        name(index), policy: BreakerPolicy(maxFailures: 5), onStoreFailure: .throw)
    }
    try store.connect()
    store.close()
    Parent.report([Double(count)])
  }

  /// The cache lines that only calls of one breaker touch: of its handle, of what the process knows
  /// of it, and of its counters.
  private static let linesOfBreaker = 3

  /// The report of a process with a handle on every breaker.
  struct Result {
    var nanosecondsOfOne = Double.nan
    var nanosecondsOfAll = Double.nan

    /// The nanoseconds for as many atomic counters, each in an object, in the same order.
    var nanosecondsOfObjects = Double.nan

    /// The nanoseconds for a cache line, if each of as many as those calls touch tells where the
    /// next one is.
    var nanosecondsOfLine = Double.nan
    var bytesOfHandle = Double.nan
  }

  static func run(in room: Room, count: Int) throws {
    let store = room.openStore()
    var breakers: [Breaker] = []
    breakers.reserveCapacity(count)
    let order = (0..<count).shuffled()
    let few = min(8, count)
    var before = 0
    var nameBytes = 0
    for index in 0..<count {
      let name = name(index)
      nameBytes += name.utf8.count
      let breaker = try store.breaker(name, onStoreFailure: .throw)
      try breaker.run {}
      breakers.append(breaker)
      if index + 1 == few { before = try ResidentMemory.resident() }
    }
    let grown = Double(try ResidentMemory.resident() - before) / Double(max(1, count - few))
    let objects = (0..<count).map { _ in Object() }
    let all = breakers
    let repetitions = max(1, 200_000 / count)
    func best(_ body: (Int) throws -> Void) rethrows -> Double {
      // Short enough that not every repetition contains work that is done once a second.
      var best = Double.infinity
      for _ in 0..<10 {
        let start = seconds()
        for _ in 0..<repetitions { for index in order { try body(index) } }
        best = min(best, (seconds() - start) / Double(repetitions * count) * 1e9)
      }
      return best
    }
    var counter = 0
    let ofOne = try best { index in try all[index & 0].run { work(&counter) } }
    let ofAll = try best { index in try all[index].run { work(&counter) } }
    let ofObjects = best { index in objects[index].touch() }
    let ofLine = try MemoryWalk.nanoseconds(lines: linesOfBreaker * count)
    let bytesOfHandle = grown - Double(nameBytes) / Double(count)
    Parent.report([ofOne, ofAll, ofObjects, ofLine, bytesOfHandle])
  }

  /// The least that a breaker of one process could be: one atomic counter.
  private final class Object: Sendable {
    private let counter = Atomic<Int>(0)

    @inline(never) func touch() { counter.add(1, ordering: .relaxed) }
  }

  /// Creates the store if it does not exist yet, and lets a child call through all its breakers.
  static func look(_ count: Int, in room: Room) throws -> Result {
    let own = try Self.room(room, count)
    let words = [own.path, "\(count)"]
    if !Files.exists(own.store) {
      _ = try Children.numbers(try Children.start(.makes, words))
    }
    let numbers = try Children.numbers(try Children.start(.many, words))
    guard numbers.count == 5 else { throw BenchError("a child failed") }
    return Result(
      nanosecondsOfOne: numbers[0], nanosecondsOfAll: numbers[1],
      nanosecondsOfObjects: numbers[2], nanosecondsOfLine: numbers[3],
      bytesOfHandle: numbers[4])
  }
}

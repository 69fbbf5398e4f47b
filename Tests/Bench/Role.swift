import BenchShim
import Glibc
import SharedBreaker

/// The role of a child process; each case lists its arguments.
enum Role: String {
  /// Makes calls for a while: a load, a room, seconds.
  case calls

  /// Writes for a while: a load, a room, seconds.
  case writes

  /// Makes calls that are observed from outside: a load, a room, seconds.
  case costs

  /// Asks after every trip and reset of another process: a room, the index of this process, trips.
  case checks

  /// Fails at a steady rate: a room, failures a second, seconds.
  case neighbour

  /// Creates breakers: a room, how many.
  case makes

  /// Calls through many breakers: a room, how many.
  case many

  /// Does nothing, while its memory is measured.
  case rests

  /// Opens a store and uses it: a room.
  case opens

  /// Makes calls that time out: a room.
  case frees

  /// Makes one call while its parent holds the store: the call, a room, whether the store is open.
  case blocks

  func run(_ words: [String]) throws {
    bs_end_with_parent()
    func word(_ index: Int) -> String { index < words.count ? words[index] : "" }
    func number(_ index: Int) -> Double { Double(word(index)) ?? 0 }
    func load() throws -> Load {
      guard let load = Load(rawValue: word(0)) else { throw BenchError("no load '\(word(0))'") }
      return load
    }
    switch self {
    case .calls: try Caller.run(load(), in: Room(path: word(1)), for: number(2))
    case .writes: try Writer.run(load(), in: Room(path: word(1)), for: number(2))
    case .costs: try CostWatch.run(load(), in: Room(path: word(1)), for: number(2))
    case .checks:
      try Checker.run(in: Room(path: word(0)), index: Int(number(1)), trips: Int(number(2)))
    case .neighbour: try Neighbour.run(in: Room(path: word(0)), rate: number(1), for: number(2))
    case .makes: try ManyBreakers.make(in: Room(path: word(0)), count: Int(number(1)))
    case .many: try ManyBreakers.run(in: Room(path: word(0)), count: Int(number(1)))
    case .rests: try Memory.rest()
    case .frees: try LateFreeing.run(in: Room(path: word(0)))
    case .blocks:
      try BlockedCall.run(word(0), in: Room(path: word(1)), isWarm: word(2) == "1")
    case .opens: try Memory.open(in: Room(path: word(0)))
    }
  }
}

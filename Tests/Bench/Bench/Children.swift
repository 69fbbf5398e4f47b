import BenchShim
import Glibc
import SharedBreaker
import TestSupport

/// Other processes of the benchmark, which run this program in another role.
enum Children {
  static var program: String { BuiltProducts.path(of: "bench") }

  /// Long, because a slow machine's figures are of interest too.
  static let patienceMilliseconds: Int32 = 600_000

  static func start(_ role: Role, _ words: [String]) throws -> Child {
    try Child(
      program, ["child", role.rawValue] + words, patienceMilliseconds: patienceMilliseconds)
  }

  /// Lets all children begin at the same instant, so that none has the machine to itself.
  static func begin(_ children: [Child]) throws {
    for child in children {
      guard try child.line() == "ready" else { throw BenchError("a child did not get ready") }
    }
    let start = seconds() + 0.02
    for child in children { try child.send("\(start)") }
  }

  /// The numbers that a child reports.
  static func numbers(_ child: Child) throws -> [Double] {
    guard let line = try child.line() else { throw BenchError("a child failed") }
    return line.split(separator: " ").compactMap { Double($0) }
  }

  /// Runs several children of one kind side by side, and returns what each reports.
  static func run(_ count: Int, _ role: Role, _ words: [String]) throws -> [[Double]] {
    let children = try (0..<count).map { _ in try start(role, words) }
    try begin(children)
    return try children.map { try numbers($0) }
  }
}

/// The child's side.
enum Parent {
  /// Reports that this process is ready, and returns the instant at which all children begin.
  static func awaitStart() throws -> Double {
    say("ready")
    guard let line = readLine(), let start = Double(line) else { throw BenchError("left alone") }
    return start
  }

  static func report(_ numbers: [Double]) { say(numbers.map { "\($0)" }.joined(separator: " ")) }

  /// Waits, without changing anything, until the parent has finished looking at this process.
  static func awaitEnd() { while readLine() != nil {} }

  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe write(1, bytes, bytes.count)
  }
}

/// The role of a child process; each case lists its arguments.
enum Role: String {
  /// Makes calls for a while: a load, a room, seconds.
  case calls

  /// Makes calls whose instructions are counted from outside: a load, a room, how many calls.
  case counts

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

  /// Forks children that make one call: a room, how many of each kind.
  case forks

  /// Makes calls that time out: a room.
  case frees

  /// Makes one call while its parent holds the store: the call, a room, whether the store is open.
  case blocks

  /// Has turns together with another process: how they are handed over, a room, which side, how many.
  case hands

  /// Lets threads wait for room, and measures what that costs: a room, seconds.
  case waits

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
    case .counts: try CountedCalls.run(load(), in: Room(path: word(1)), count: Int(number(2)))
    case .writes: try Writer.run(load(), in: Room(path: word(1)), for: number(2))
    case .costs: try CostWatch.run(load(), in: Room(path: word(1)), for: number(2))
    case .checks:
      try Checker.run(in: Room(path: word(0)), index: Int(number(1)), trips: Int(number(2)))
    case .neighbour: try Neighbour.run(in: Room(path: word(0)), rate: number(1), for: number(2))
    case .makes: try ManyBreakers.make(in: Room(path: word(0)), count: Int(number(1)))
    case .many: try ManyBreakers.run(in: Room(path: word(0)), count: Int(number(1)))
    case .rests: try ResidentMemory.rest()
    case .forks: try ForkedCalls.run(in: Room(path: word(0)), count: Int(number(1)))
    case .frees: try LateFreeing.run(in: Room(path: word(0)))
    case .blocks:
      try BlockedCall.run(word(0), in: Room(path: word(1)), isWarm: word(2) == "1")
    case .waits: try IdleWaiters.run(in: Room(path: word(0)), for: number(1))
    case .opens: try ResidentMemory.open(in: Room(path: word(0)))
    case .hands:
      guard let way = HandOver(rawValue: word(0)) else { throw BenchError("no way '\(word(0))'") }
      try way.run(in: Room(path: word(1)), side: Int32(number(2)), count: Int(number(3)))
    }
  }
}

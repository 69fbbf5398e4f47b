import Glibc
import SharedBreaker
import TestSupport

/// The memory of a process.
enum ResidentMemory {
  /// The resident bytes of this process.
  static func resident() throws -> Int {
    let words = String(decoding: try Files.read("/proc/self/statm"), as: UTF8.self)
      .split(separator: " ")
    guard words.count > 1, let pages = Int(words[1]) else { throw BenchError("no statm") }
    return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
  }

  /// The bytes that no other process shares; the rest is the code of programs and libraries.
  static func own() throws -> Int {
    let status = String(decoding: try Files.read("/proc/self/status"), as: UTF8.self)
    for line in status.split(separator: "\n") where line.hasPrefix("RssAnon:") {
      let words = line.split(whereSeparator: \.isWhitespace)
      if words.count > 1, let kilobytes = Int(words[1]) { return kilobytes * 1_024 }
    }
    throw BenchError("no RssAnon")
  }

  static func rest() throws { Parent.report([Double(try resident()), Double(try own())]) }

  static func open(in room: Room) throws {
    let store = room.openStore()
    let breaker = try FailureLoops.breaker("opened", of: store)
    try breaker.run {}
    try breaker.acquire().fail(error: "connection refused")
    try breaker.run {}
    Parent.report([Double(try resident()), Double(try own())])
  }

  /// The megabytes of a child in a role: those that are resident, and those that it does not share.
  static func megabytes(_ role: Role, in room: Room) throws -> (all: Double, own: Double) {
    let numbers = try Children.numbers(try Children.start(role, [room.path]))
    guard numbers.count == 2 else { throw BenchError("a child failed") }
    return (numbers[0] / 1e6, numbers[1] / 1e6)
  }
}

/// A walk through memory, in which each cache line tells where the next one is.
///
/// The processor can fetch nothing ahead, so each step takes as long as memory does to answer.
enum MemoryWalk {
  private static let wordsOfLine = 8

  /// The nanoseconds for each line, in random order.
  static func nanoseconds(lines: Int) throws -> Double {
    let order = (0..<lines).shuffled()
    var next = [Int](repeating: 0, count: lines * wordsOfLine)
    for (line, following) in zip(order, order.dropFirst() + order.prefix(1)) {
      next[line * wordsOfLine] = following * wordsOfLine
    }
    var best = Double.infinity
    var place = 0
    for _ in 0..<10 {
      let start = seconds()
      for _ in 0..<lines { place = next[place] }
      best = min(best, (seconds() - start) / Double(lines) * 1e9)
    }
    // Also keeps the walk from being left out.
    guard place == 0 else { throw BenchError("the walk did not return") }
    return best
  }
}

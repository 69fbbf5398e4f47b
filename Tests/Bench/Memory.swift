import Glibc
import SharedBreaker
import TestSupport

/// What a process keeps in memory.
enum Memory {
  /// The resident bytes of this process.
  static func resident() throws -> Int {
    let words = String(decoding: try Files.read("/proc/self/statm"), as: UTF8.self)
      .split(separator: " ")
    guard words.count > 1, let pages = Int(words[1]) else { throw BenchError("no statm") }
    return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
  }

  static func rest() throws { Parent.report([Double(try resident())]) }

  static func open(in room: Room) throws {
    let store = room.openStore()
    let breaker = try FailureLoops.breaker("opened", of: store)
    try breaker.run {}
    try breaker.acquire().fail(Failure(error: "connection refused"))
    try breaker.run {}
    Parent.report([Double(try resident())])
  }

  /// Megabytes of a child in that role.
  static func megabytes(_ role: Role, in room: Room) throws -> Double {
    let numbers = try Children.numbers(try Children.start(role, [room.path]))
    return (numbers.first ?? .nan) / 1e6
  }
}

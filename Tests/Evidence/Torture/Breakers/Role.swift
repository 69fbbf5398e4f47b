import BreakerStore
import SharedBreaker
import TestSupport

/// The options that a process of the torture is started with.
struct Role {
  private var values: [String: String] = [:]

  init(_ arguments: some Sequence<String>) {
    for argument in arguments {
      let parts = argument.split(separator: "=", maxSplits: 1)
      values[String(parts[0])] = parts.count > 1 ? String(parts[1]) : ""
    }
  }

  func text(_ key: String) throws -> String {
    guard let value = values[key] else { throw SupportError("no \(key)") }
    return value
  }

  func number(_ key: String) throws -> Int {
    guard let number = Int(try text(key)) else { throw SupportError("no number for \(key)") }
    return number
  }

  func seed() throws -> UInt64 {
    guard let seed = UInt64(try text("seed")) else { throw SupportError("no seed") }
    return seed
  }

  func has(_ key: String) -> Bool { values[key] != nil }

  /// The clock of the store: the host's own, unless the referee moves one.
  func clock() throws -> StoreClock {
    try values["clock"].map { try TestClock(path: $0).clock } ?? .system
  }
}

import SharedBreaker

/// What is wrong with a host's part in its fleet, in words.
enum FleetTrouble {
  /// The relay is not connected, since when, why, and what waits for it.
  static func notReached(
    since: BreakerTimestamp?, _ problem: String?, _ waiting: Int64, at now: BreakerTimestamp
  ) -> String {
    let duration = since.map { " for \(Age.short(of: $0, at: now))" } ?? " yet"
    let problem = problem.map { " (\(VisibleText.bare($0)))" } ?? ""
    return "this host's relay has not reached it\(duration)\(problem)\(words(waiting))"
  }

  static func noRelay(waiting: Int64) -> String {
    "the relay of this host does not run" + words(waiting)
  }

  private static func words(_ waiting: Int64) -> String {
    switch waiting {
    case 0: ""
    case 1: ", and 1 command waits"
    default: ", and \(waiting) commands wait"
    }
  }
}

extension FleetStanding {
  /// What is wrong with this host's part in the fleet, also why if `isFull`; nil if nothing is.
  func trouble(at now: BreakerTimestamp, isFull: Bool = true) -> String? {
    if !isRelayRunning { return FleetTrouble.noRelay(waiting: Int64(waiting)) }
    if isConnected { return nil }
    return FleetTrouble.notReached(
      since: changedAt, isFull ? problem : nil, Int64(waiting), at: now)
  }

  /// One line about that, and where to find out more.
  func hint(at now: BreakerTimestamp) -> String? {
    trouble(at: now, isFull: false).map {
      "fleet \(VisibleText.name(fleet)): \($0): see 'cbctl doctor'"
    }
  }
}

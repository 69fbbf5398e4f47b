import SharedBreaker

/// The order in which breakers are listed: the worst first, and then by name.
enum WorryOrder {
  /// The breakers in that order.
  static func sorted(_ snapshots: [BreakerSnapshot]) -> [BreakerSnapshot] {
    of(snapshots).map { snapshots[$0] }
  }

  /// Where in a list the breakers are, in that order.
  ///
  /// What is compared is gathered first: to move whole snapshots about takes far longer.
  static func of(_ snapshots: [BreakerSnapshot]) -> [Int] {
    let keys = snapshots.indices.map { index in
      (
        rank: rank(of: snapshots[index]), failures: snapshots[index].consecutiveFailures,
        name: snapshots[index].name, index: index
      )
    }
    let sorted = keys.sorted { first, second in
      if first.rank != second.rank { return first.rank < second.rank }
      if first.failures != second.failures { return first.failures > second.failures }
      return first.name < second.name
    }
    return sorted.map(\.index)
  }

  private static func rank(of snapshot: BreakerSnapshot) -> Int {
    if !snapshot.permits { return 0 }
    if snapshot.state != .closed { return 1 }
    return snapshot.mode == .automatic ? 3 : 2
  }
}

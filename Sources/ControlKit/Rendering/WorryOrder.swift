import SharedBreaker

/// The order of lists of breakers: the worst first, then by name.
enum WorryOrder {
  /// The breakers in that order.
  static func sorted(_ snapshots: [BreakerSnapshot]) -> [BreakerSnapshot] {
    of(snapshots).map { snapshots[$0] }
  }

  /// The indices of the breakers in a list, in that order.
  ///
  /// It gathers the compared values first, because moving whole snapshots takes far longer.
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

import SharedBreaker

/// The table of `status`: one line a breaker, the worst first.
struct StatusTable {
  var snapshots: [BreakerSnapshot]

  /// The present, if people read it: they get ages, and a dash for what is as usual.
  var now: Timestamp?

  func render(width: Int?, painter: Painter) -> String {
    var table = Table(columns: [
      .init(title: "NAME", canShrink: true),
      .init(title: "STATE"),
      .init(title: "MODE"),
      .init(title: "FAILURES", isRightAligned: true),
      .init(title: "RATE", isRightAligned: true),
      .init(title: "RETRY-IN", isRightAligned: true),
      .init(title: "TRIPS", isRightAligned: true),
      .init(title: "LAST-FAILURE"),
    ])
    table.rows = Self.order(of: snapshots).map { row(snapshots[$0]) }
    return table.render(width: width, painter: painter)
  }

  private func row(_ snapshot: BreakerSnapshot) -> [Table.Cell] {
    [
      .init(VisibleText.name(snapshot.name)),
      .init(snapshot.state.wireName, Self.color(of: snapshot)),
      mode(of: snapshot),
      .init(Self.failures(of: snapshot)),
      .init(snapshot.failureRate.map(RateWords.format) ?? "-"),
      .init(Self.retry(of: snapshot)),
      .init(String(snapshot.trips)),
      .init(lastFailure(of: snapshot)),
    ]
  }

  /// Failures, and of how many that open it: those in a row, or else those within a time.
  private static func failures(of snapshot: BreakerSnapshot) -> String {
    let policy = snapshot.policy
    let count = snapshot.consecutiveFailures
    if let limit = policy.consecutiveFailuresToOpen {
      return count <= limit ? "\(count)/\(limit)" : String(count)
    }
    if let recent = snapshot.recentFailures, let limit = policy.failures {
      return "\(recent)/\(limit)"
    }
    return String(count)
  }

  private static func retry(of snapshot: BreakerSnapshot) -> String {
    if snapshot.isNextCallProbe { return "due" }
    return snapshot.retryAfter.map { SpokenDuration.format($0) } ?? "-"
  }

  private func mode(of snapshot: BreakerSnapshot) -> Table.Cell {
    let isUsual = snapshot.mode == .automatic
    return .init(isUsual && now != nil ? "-" : snapshot.mode.wireName, isUsual ? nil : .yellow)
  }

  private func lastFailure(of snapshot: BreakerSnapshot) -> String {
    guard let time = snapshot.lastFailureAt else { return "-" }
    return now.map { Age.text(of: time, at: $0) } ?? time.description
  }

  private static func color(of snapshot: BreakerSnapshot) -> Color {
    switch snapshot.state {
    case .closed: snapshot.permits ? .green : .red
    case .open: snapshot.isProbeDue ? .yellow : .red
    case .halfOpen: .yellow
    }
  }

  /// The order of worry, and then of names.
  static func sorted(_ snapshots: [BreakerSnapshot]) -> [BreakerSnapshot] {
    order(of: snapshots).map { snapshots[$0] }
  }

  /// Where in a list the breakers are, in that order.
  ///
  /// What is compared is gathered first: to move whole snapshots about takes far longer.
  static func order(of snapshots: [BreakerSnapshot]) -> [Int] {
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

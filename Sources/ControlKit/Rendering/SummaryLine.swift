import SharedBreaker

/// How many breakers stand how, in one line below the table.
enum SummaryLine {
  /// What one word tells of a breaker, the worst first.
  private enum Standing: Int, CaseIterable {
    case forcedOpen, open, halfOpen, due, forcedClosed, observe, closed

    init(_ snapshot: BreakerSnapshot) {
      self =
        switch (snapshot.mode, snapshot.state) {
        case (.forcedOpen, _): .forcedOpen
        case (.forcedClosed, _): .forcedClosed
        case (.observe, _): .observe
        case (.automatic, .open): snapshot.isProbeDue ? .due : .open
        case (.automatic, .halfOpen): .halfOpen
        case (.automatic, .closed): .closed
        }
    }

    var words: String {
      switch self {
      case .forcedOpen: "forced_open"
      case .open: "open"
      case .halfOpen: "half_open"
      case .due: "due"
      case .forcedClosed: "forced_closed"
      case .observe: "observe"
      case .closed: "closed"
      }
    }

    var color: Color {
      switch self {
      case .forcedOpen, .open: .red
      case .halfOpen, .due, .forcedClosed, .observe: .yellow
      case .closed: .green
      }
    }
  }

  static func text(of snapshots: [BreakerSnapshot], painter: Painter) -> String {
    var counts: [Standing: Int64] = [:]
    for snapshot in snapshots { counts[Standing(snapshot), default: 0] += 1 }
    let parts = Standing.allCases.compactMap { standing in
      counts[standing].map { painter.paint("\($0) \(standing.words)", standing.color) }
    }
    let count = StateLine.counted(Int64(snapshots.count), "breaker")
    let next = snapshots.filter { $0.mode == .automatic }.compactMap(\.retryAfter).min()
    let retry = next.map { "; next retry in \(SpokenDuration.format($0))" } ?? ""
    return "\(count)\(parts.isEmpty ? "" : ": ")\(parts.joined(separator: ", "))\(retry)"
  }
}

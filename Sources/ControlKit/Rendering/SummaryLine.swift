import SharedBreaker

/// The line below the table that counts the breakers in each state.
enum SummaryLine {
  /// The state or mode of a breaker as one word, the worst first.
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
        default: .closed
        }
    }

    var words: String {
      switch self {
      case .forcedOpen: BreakerMode.forcedOpen.wireName
      case .open: BreakerState.open.wireName
      case .halfOpen: BreakerState.halfOpen.wireName
      case .due: "due"
      case .forcedClosed: BreakerMode.forcedClosed.wireName
      case .observe: BreakerMode.observe.wireName
      case .closed: BreakerState.closed.wireName
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

  /// The line; if `width` is too small it leaves out the least worrying counts first.
  static func text(
    of snapshots: [BreakerSnapshot], width: Int? = nil, painter: Painter
  ) -> String {
    var counts: [Standing: Int64] = [:]
    for snapshot in snapshots { counts[Standing(snapshot), default: 0] += 1 }
    let words = Standing.allCases.compactMap { standing in
      counts[standing].map { (text: "\($0) \(standing.words)", color: standing.color) }
    }
    let count = CountedNoun.text(snapshots.count, "breaker")
    let next = snapshots.filter { $0.mode == .automatic }.compactMap(\.retryAfter).min()
    let retry = next.map { "; next retry in \(SpokenDuration.format($0))" } ?? ""
    var line = count
    var length = count.count
    for (index, word) in words.enumerated() {
      length += word.text.count + 2
      // The worst come first, and the ellipsis needs room too.
      if let width, length + 3 > width { return line + (index == 0 ? "" : ", …") }
      line += (index == 0 ? ": " : ", ") + painter.paint(word.text, word.color)
    }
    return width.map { length + retry.count > $0 } == true ? line : line + retry
  }

  /// The names of the worst, for a table whose first lines have scrolled away; nil if all is well.
  static func worst(of snapshots: [BreakerSnapshot], width: Int) -> String? {
    let worst = WorryOrder.sorted(snapshots.filter { !$0.permits || $0.state != .closed })
    guard !worst.isEmpty else { return nil }
    let names = worst.map { VisibleText.name($0.name) }.joined(separator: ", ")
    return TextWidth.cut("worst: \(names)", to: width)
  }
}

import SharedBreaker

/// The table of `status`: one line a breaker, the worst first.
struct StatusTable {
  var snapshots: [BreakerSnapshot]

  /// The present, if people read it on a terminal.
  ///
  /// They get ages, and no column that says the same of every breaker. Programs always get the same
  /// columns, and one word in each.
  var now: Timestamp?

  func render(width: Int?, painter: Painter) -> String {
    let columns = now.map(columns(at:)) ?? Self.plainColumns()
    var table = Table(columns: columns.map(\.column))
    table.rows = WorryOrder.of(snapshots).map { index in columns.map { $0.cell(snapshots[index]) } }
    return table.render(width: width, painter: painter)
  }

  /// A column, and what stands in it.
  private struct Column {
    var column: Table.Column
    var cell: (BreakerSnapshot) -> Table.Cell

    init(
      _ title: String, right: Bool = false, comfortable: Int? = nil, rank: Int? = nil,
      _ cell: @escaping (BreakerSnapshot) -> Table.Cell
    ) {
      column = Table.Column(
        title: title, isRightAligned: right, comfortableWidth: comfortable,
        keepsEnd: title == "NAME", rank: rank)
      self.cell = cell
    }
  }

  private static func plainColumns() -> [Column] {
    [
      Column("NAME") { .init(VisibleText.name($0.name)) },
      Column("STATE") { .init($0.state.wireName) },
      Column("MODE") { .init($0.mode.wireName) },
      Column("SINCE") { .init($0.since?.description ?? "-") },
      Column("RETRY-IN", right: true) { .init(Self.retry(of: $0) { SpokenDuration.word($0) }) },
      Column("FAILURES", right: true) { .init(Self.failures(of: $0)) },
      Column("RATE", right: true) { .init(Self.rate(of: $0)) },
      Column("TRIPS", right: true) { .init(String($0.trips)) },
      Column("LAST-FAILURE") { .init($0.lastFailureAt?.description ?? "-") },
    ]
  }

  private func columns(at now: Timestamp) -> [Column] {
    let shown = snapshots
    var columns = [
      Column("NAME", comfortable: 24) { .init(VisibleText.name($0.name), Self.nameColor(of: $0)) },
      Column("STATE") { .init($0.state.wireName, Self.color(of: $0)) },
    ]
    if shown.contains(where: { $0.mode != .automatic }) {
      columns.append(
        Column("MODE") {
          $0.mode == .automatic ? .init("-") : .init($0.mode.wireName, .yellow)
        })
    }
    columns += [
      Column("FOR", right: true) { .init($0.since.map { Age.short(of: $0, at: now) } ?? "-") },
      Column("SINCE", rank: 2) { .init($0.since.map { Age.clock(of: $0, at: now) } ?? "-") },
      Column("RETRY-IN", right: true) {
        .init(Self.retry(of: $0, SpokenDuration.format), $0.isNextCallProbe ? .yellow : nil)
      },
      Column("FAILURES", right: true) { .init(Self.failures(of: $0)) },
    ]
    if shown.contains(where: { $0.failureRate != nil }) {
      columns.append(Column("RATE", right: true, rank: 4) { .init(Self.rate(of: $0)) })
    }
    columns += [
      Column("TRIPS", right: true, rank: 3) { .init(String($0.trips)) },
      Column("LAST-FAILURE", rank: 5) {
        .init($0.lastFailureAt.map { Age.short(of: $0, at: now) + " ago" } ?? "-")
      },
    ]
    if shown.contains(where: { $0.lastError != nil }) {
      columns.append(
        Column("LAST-ERROR", comfortable: 20, rank: 1) { .init($0.lastError ?? "", .faint) })
    }
    return columns
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

  private static func rate(of snapshot: BreakerSnapshot) -> String {
    snapshot.failureRate.map(RateWords.format) ?? "-"
  }

  static func retry(of snapshot: BreakerSnapshot, _ words: (Duration) -> String) -> String {
    if snapshot.isNextCallProbe { return "due" }
    return snapshot.retryAfter.map(words) ?? "-"
  }

  static func color(of snapshot: BreakerSnapshot) -> Color {
    switch snapshot.state {
    case .closed: snapshot.permits ? .green : .red
    case .open: snapshot.isProbeDue ? .yellow : .red
    case .halfOpen: .yellow
    }
  }

  static func nameColor(of snapshot: BreakerSnapshot) -> Color? {
    snapshot.permits && snapshot.state == .closed ? nil : .bold
  }
}

extension BreakerSnapshot {
  /// When it came to be as it is: made, if nothing has happened to it since.
  var since: Timestamp? { changedAt ?? createdAt }
}

import SharedBreaker

/// The table of `status`: one line for each breaker, the worst first.
struct StatusTable {
  var snapshots: [BreakerSnapshot]

  /// The present, on a terminal; nil for programs.
  ///
  /// A terminal shows ages, and omits columns that are the same for every breaker. Programs always
  /// get the same columns, with one word in each.
  var now: BreakerTimestamp?

  /// The rates of calls by name, if the table is shown repeatedly.
  var rates: RateBook?

  func render(width: Int?, painter: Painter) -> String {
    let columns = now.map(columns(at:)) ?? Self.plainColumns()
    var table = Table(columns: columns.map(\.column))
    table.rows = WorryOrder.of(snapshots).map { index in columns.map { $0.cell(snapshots[index]) } }
    return table.render(width: width, painter: painter)
  }

  /// A column and its content.
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

  private func columns(at now: BreakerTimestamp) -> [Column] {
    let shown = snapshots
    let rates = rates
    var columns = [
      Column("NAME", comfortable: rates == nil ? 24 : 16) {
        .init(VisibleText.name($0.name), Self.nameColor(of: $0))
      },
      rates == nil
        ? Column("STATE") { .init($0.state.wireName, Self.color(of: $0)) }
        : Column("STATE", Self.standing),
    ]
    if rates == nil, shown.contains(where: { $0.mode != .automatic }) {
      columns.append(
        Column("MODE") {
          $0.mode == .automatic ? .init("-") : .init($0.mode.wireName, .yellow)
        })
    }
    columns += [
      Column("FOR", right: true, rank: 8) {
        .init($0.since.map { Age.short(of: $0, at: now) } ?? "-")
      },
      Column("SINCE", rank: 2) { .init($0.since.map { Age.clock(of: $0, at: now) } ?? "-") },
      Column("RETRY-IN", right: true, rank: 12) {
        .init(Self.retry(of: $0, SpokenDuration.format), $0.isNextCallProbe ? .yellow : nil)
      },
      Column("FAILURES", right: true, rank: rates == nil ? 9 : 6) {
        .init(Self.failures(of: $0))
      },
    ]
    if let rates { columns += Self.columns(of: rates) }
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

  /// The mode if one is set, otherwise the state, because rates leave no room for both.
  private static func standing(of snapshot: BreakerSnapshot) -> Table.Cell {
    if snapshot.mode == .automatic {
      return .init(snapshot.state.wireName, color(of: snapshot))
    }
    return .init(snapshot.mode.wireName, snapshot.permits ? .yellow : .red)
  }

  private static func columns(of rates: RateBook) -> [Column] {
    func column(
      _ title: String, rank: Int, _ rate: @escaping (CallRates) -> Double
    ) -> Column {
      Column(title, right: true, rank: rank) {
        .init(RateWords.perSecond(rates.rates(of: $0.name).map(rate)))
      }
    }
    return [
      column("OK/s", rank: 7) { $0.successes }, column("FAIL/s", rank: 11) { $0.failures },
      column("REJECT/s", rank: 10) { $0.rejections },
    ]
  }

  /// The consecutive or recent failures, and how many of them open the breaker.
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

  private static func nameColor(of snapshot: BreakerSnapshot) -> Color? {
    snapshot.permits && snapshot.state == .closed ? nil : .bold
  }
}

extension BreakerSnapshot {
  /// When the mode was set, or when the state last changed if no mode is set.
  var since: BreakerTimestamp? { mode == .automatic ? changedAt ?? createdAt : modeSetAt }
}

/// The order of lists of breakers: the worst first, then by name.
enum WorryOrder {
  /// The breakers in that order.
  static func sorted(_ snapshots: [BreakerSnapshot]) -> [BreakerSnapshot] {
    of(snapshots).map { snapshots[$0] }
  }

  /// The indices of the breakers in a list, in that order.
  ///
  /// It gathers the compared values first, because moving whole snapshots takes much longer.
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

/// How many calls a second succeeded, failed and were rejected.
struct CallRates: Sendable, Hashable {
  var successes: Double
  var failures: Double
  var rejections: Double
}

/// The totals of breakers at several instants, from which rates follow.
struct RateBook {
  /// The time that rates cover; over less time they would jump, over more they would lag behind.
  private static let length = Duration.seconds(5)

  private var samples: [(at: Duration, totals: [[UInt8]: BreakerTotals])] = []

  /// Records the totals at an instant, which must be later than all earlier ones.
  mutating func note(_ snapshots: [BreakerSnapshot], at instant: Duration) {
    let totals = Dictionary(snapshots.map { (Array($0.name.utf8), $0.totals) }) { first, _ in first
    }
    // One sample that is too old is kept, because there may be nothing else to compare with.
    while samples.count > 1, instant - samples[1].at >= Self.length { samples.removeFirst() }
    samples.append((instant, totals))
  }

  /// The rates of a breaker; nil until it has been recorded twice.
  func rates(of name: String) -> CallRates? {
    let name = Array(name.utf8)
    guard let newest = samples.last, let now = newest.totals[name],
      let first = samples.first(where: { $0.totals[name] != nil }), let then = first.totals[name]
    else { return nil }
    let seconds = (newest.at - first.at) / .seconds(1)
    guard seconds > 0 else { return nil }
    // A breaker that was deleted and created again counts from zero.
    func rate(_ count: KeyPath<BreakerTotals, Int64>) -> Double {
      Double(max(0, now[keyPath: count].subtractingReportingOverflow(then[keyPath: count]).0))
        / seconds
    }
    return CallRates(
      successes: rate(\.successes), failures: rate(\.failures), rejections: rate(\.rejections))
  }
}

extension RateWords {
  /// A rate in at most four characters: `0`, `0.4`, `37`, `1.2k`, `3M`.
  static func perSecond(_ rate: Double?) -> String {
    guard let rate, rate.isFinite else { return "-" }
    switch rate {
    case ..<0.05: return rate > 0 ? "<0.1" : "0"
    case ..<9.95: return oneDecimal(rate)
    case ..<999.5: return "\(Int(rate.rounded()))"
    case ..<9_950: return oneDecimal(rate / 1_000) + "k"
    case ..<999_500: return "\(Int((rate / 1_000).rounded()))k"
    default: return "\(Int(min(rate / 1_000_000, 1e9).rounded()))M"
    }
  }

  private static func oneDecimal(_ value: Double) -> String {
    let (whole, tenth) = Int((value * 10).rounded()).quotientAndRemainder(dividingBy: 10)
    return tenth == 0 ? "\(whole)" : "\(whole).\(tenth)"
  }
}

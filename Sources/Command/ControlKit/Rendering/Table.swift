@_spi(Command) import SharedBreaker

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
      Column("NOTE") { .init($0.isFlapping ? FlappingWords.mark : "-") },
      Column("BUSY", right: true) { .init(LimitWords.busy($0) ?? "-") },
      Column("QUEUE", right: true) { .init(LimitWords.queue($0) ?? "-") },
      Column("HELD", right: true) {
        .init(HoldWords.left($0) { SpokenDuration.word($0) } ?? "-")
      },
      Column("RAMP", right: true) {
        .init(LimitWords.ramp($0) { SpokenDuration.word($0) } ?? "-")
      },
      Column("BEGUN", right: true) {
        .init(LimitWords.begun($0)?.replacing(" ", with: "/") ?? "-")
      },
      Column("RETRIES", right: true) {
        .init(LimitWords.retries($0)?.replacing(" ", with: "/") ?? "-")
      },
    ]
  }

  private func columns(at now: BreakerTimestamp) -> [Column] {
    let shown = snapshots
    let rates = rates
    var columns = [
      Column("NAME", comfortable: rates == nil ? 24 : 13) {
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
    if shown.contains(where: \.isFlapping) {
      columns.append(
        Column("NOTE", rank: 7) { .init($0.isFlapping ? FlappingWords.mark : "-", .yellow) })
    }
    if shown.contains(where: { $0.hold != nil }) {
      columns.append(
        Column("HELD", right: true, rank: 11) {
          .init(HoldWords.left($0, SpokenDuration.format) ?? "-", .yellow)
        })
    }
    if shown.contains(where: { $0.ramp != nil }) {
      columns.append(
        Column("RAMP", right: true, rank: 9) {
          .init(LimitWords.ramp($0, SpokenDuration.format) ?? "-", .yellow)
        })
    }
    if shown.contains(where: LimitWords.isShown) {
      columns += [
        Column("BUSY", right: true, rank: 10) {
          .init(LimitWords.busy($0) ?? "-", $0.hasRoom == false ? .yellow : nil)
        },
        Column("QUEUE", right: true, rank: 6) {
          .init(
            LimitWords.queue($0) ?? "-", $0.limit.map { $0.waiting > 0 } == true ? .yellow : nil)
        },
      ]
    }
    if shown.contains(where: { $0.policy.rate != nil }) {
      columns.append(
        Column("BEGUN", right: true, rank: 8) {
          .init(
            LimitWords.begun($0) ?? "-", $0.rate.map { $0.nextIn > .zero } == true ? .yellow : nil)
        })
    }
    if shown.contains(where: { $0.policy.retryBudget != nil }) {
      columns.append(
        Column("RETRIES", right: true, rank: 5) {
          .init(
            LimitWords.retries($0) ?? "-", $0.retries?.permitsAnother == false ? .yellow : nil)
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
      columns.append(Column("RATE", right: true, rank: 4) { .init(Self.rateOfLimit($0)) })
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
      return "\(count)/\(limit)"
    }
    if let recent = snapshot.recentFailures, let limit = policy.failures {
      return "\(recent)/\(limit)"
    }
    return String(count)
  }

  private static func rate(of snapshot: BreakerSnapshot) -> String {
    snapshot.failureRate.map(RateWords.format) ?? "-"
  }

  /// The rate of failures, and the one that opens the breaker, such as `12/50%`.
  private static func rateOfLimit(_ snapshot: BreakerSnapshot) -> String {
    let rate = rate(of: snapshot)
    guard rate.hasSuffix("%"), let limit = snapshot.policy.failureRate else { return rate }
    return "\(rate.dropLast())/\(limit)"
  }

  static func retry(of snapshot: BreakerSnapshot, _ words: (Duration) -> String) -> String {
    if snapshot.isNextCallProbe { return "due" }
    return snapshot.retryAfter.map(words) ?? "-"
  }

  static func color(of snapshot: BreakerSnapshot) -> Color {
    switch snapshot.state {
    case .closed where snapshot.rejection?.cause == .held: .yellow
    case .closed: snapshot.permits ? .green : .red
    case .open: snapshot.isProbeDue ? .yellow : .red
    case .halfOpen: .yellow
    }
  }

  private static func nameColor(of snapshot: BreakerSnapshot) -> Color? {
    snapshot.permits && snapshot.state == .closed && !snapshot.isFlapping ? nil : .bold
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
    if snapshot.isFlapping { return 2 }
    return snapshot.mode == .automatic ? 4 : 3
  }
}

/// Rows of text in aligned columns, two spaces apart.
struct Table {
  struct Column {
    var title: String
    var isRightAligned = false

    /// The width to which the column is cut on a narrow terminal; nil if it cannot be cut.
    var comfortableWidth: Int?

    /// Whether text that is cut also keeps its end.
    var keepsEnd = false

    /// The lower, the earlier the column is left out if cutting is not enough; nil for one that stays.
    var rank: Int?
  }

  struct Cell {
    let text: String
    let width: Int
    let color: Color?

    /// Creates a cell, and makes characters visible that would control a terminal.
    init(_ text: String, _ color: Color? = nil) {
      self.text = VisibleText.bare(text)
      width = TextWidth.of(self.text)
      self.color = color
    }
  }

  private static let gap = "  "

  /// The width that a column keeps when nothing else can be cut or left out.
  private static let narrowest = 8

  var columns: [Column]
  var rows: [[Cell]] = []

  /// The lines of the table, each with its line end; cut to `width` columns if one is given.
  func render(width: Int? = nil, painter: Painter = Painter(isOn: false)) -> String {
    let layout = fitted(to: width)
    let titles = columns.map { Cell($0.title, .faint) }
    var result = ""
    write(titles, layout, painter, to: &result)
    for row in rows { write(row, layout, painter, to: &result) }
    return result
  }

  /// Which columns are shown, and the width of each.
  private typealias Layout = [(column: Int, width: Int)]

  private func fitted(to width: Int?) -> Layout {
    var layout: Layout = columns.indices.map { ($0, TextWidth.of(columns[$0].title)) }
    for row in rows {
      for (index, cell) in row.enumerated() {
        layout[index].width = max(layout[index].width, cell.width)
      }
    }
    guard let width else { return layout }
    while true {
      // Columns that can be left out are cut first.
      let shrunk = shrink(layout, to: width) { columns[$0].rank != nil }
      let cut = shrink(shrunk, to: width) { _ in true }
      if Self.total(cut) <= width { return cut }
      let least = layout.indices.filter { columns[layout[$0].column].rank != nil }.min {
        (columns[layout[$0].column].rank ?? 0) < (columns[layout[$1].column].rank ?? 0)
      }
      guard let least else {
        return squeezed(shrink(layout, to: width, least: Self.narrowest) { _ in true }, to: width)
      }
      layout.remove(at: least)
    }
  }

  private func shrink(
    _ layout: Layout, to width: Int, least: Int? = nil, where applies: (Int) -> Bool
  ) -> Layout {
    var layout = layout
    var excess = Self.total(layout) - width
    for index in layout.indices where excess > 0 && applies(layout[index].column) {
      guard let comfortable = columns[layout[index].column].comfortableWidth else { continue }
      let old = layout[index].width
      layout[index].width = max(min(old, least ?? comfortable), old - excess)
      excess -= old - layout[index].width
    }
    return layout
  }

  /// The last resort: cuts whatever does not fit, and marks it with an ellipsis.
  ///
  /// A terminal would cut a line without a mark, and a number that has lost a digit is another number.
  private func squeezed(_ layout: Layout, to width: Int) -> Layout {
    var layout = layout
    for index in layout.indices.reversed() {
      layout[index].width = max(1, layout[index].width - max(0, Self.total(layout) - width))
    }
    return layout
  }

  private static func total(_ layout: Layout) -> Int {
    layout.reduce(0) { $0 + $1.width } + gap.count * (layout.count - 1)
  }

  private func write(
    _ cells: [Cell], _ layout: Layout, _ painter: Painter, to result: inout String
  ) {
    var owedSpaces = 0
    for (column, width) in layout {
      let cell = cells[column]
      var text = cell.text
      if cell.width > width {
        text =
          columns[column].keepsEnd
          ? TextWidth.cutInside(text, to: width) : TextWidth.cut(text, to: width)
      }
      let padding = width - (cell.width > width ? TextWidth.of(text) : cell.width)
      let before = columns[column].isRightAligned ? padding : 0
      // Spaces are written only before more text, so that no line ends in spaces.
      if !text.isEmpty { result += String(repeating: " ", count: owedSpaces + before) }
      owedSpaces = text.isEmpty ? owedSpaces + width : padding - before
      owedSpaces += Self.gap.count
      result += painter.paint(text, cell.color)
    }
    result += "\n"
  }
}

/// The colours that commands print.
enum Color: String, Sendable, Hashable {
  case red = "31"
  case green = "32"
  case yellow = "33"
  case bold = "1"
  case faint = "2"
}

/// Colours text, or leaves it unchanged if colours are off.
struct Painter: Sendable, Hashable {
  var isOn: Bool

  func paint(_ text: String, _ color: Color?) -> String {
    guard isOn, let color, !text.isEmpty else { return text }
    return "\u{1b}[\(color.rawValue)m\(text)\u{1b}[0m"
  }
}

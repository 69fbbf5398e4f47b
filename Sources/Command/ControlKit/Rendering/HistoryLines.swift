@_spi(Command) import SharedBreaker

/// The state of a breaker in one line, as commands print it after every change.
enum StateLine {
  static func text(of snapshot: BreakerSnapshot) -> String {
    "\(VisibleText.name(snapshot.name)): \(words(of: snapshot))"
  }

  static func words(of snapshot: BreakerSnapshot) -> String {
    guard let mode = mode(of: snapshot) else { return state(of: snapshot) }
    return "\(mode); state: \(state(of: snapshot))"
  }

  private static func state(of snapshot: BreakerSnapshot) -> String {
    let reason = snapshot.openReason.map { " (\(VisibleText.bare($0)))" } ?? ""
    var parts = [snapshot.state.wireName + reason]
    if snapshot.isNextCallProbe {
      parts.append("the next call is a probe")
    } else if let wait = snapshot.mode == .automatic ? snapshot.retryAfter : snapshot.openEndsIn,
      wait > .zero, snapshot.rejection?.cause != .held
    {
      parts.append("retry in \(SpokenDuration.format(wait))")
    }
    if snapshot.state == .closed, snapshot.consecutiveFailures > 0 {
      parts.append(CountedNoun.text(snapshot.consecutiveFailures, "consecutive failure"))
    }
    if let hold = HoldWords.standing(snapshot) { parts.append(hold) }
    if snapshot.isFlapping { parts.append(FlappingWords.mark) }
    if let obstacle = LimitWords.obstacle(snapshot) {
      parts.append(obstacle)
    } else if let left = LimitWords.ramp(snapshot, SpokenDuration.format) {
      parts.append("ramping up for another \(left)")
    }
    return parts.joined(separator: ", ")
  }

  /// The mode that an operator has set, until when, and why.
  private static func mode(of snapshot: BreakerSnapshot) -> String? {
    guard snapshot.mode != .automatic else { return nil }
    let end = snapshot.modeEndsIn.map { " for \(SpokenDuration.format($0))" } ?? ""
    let reason = snapshot.modeReason.map { " (\(VisibleText.bare($0)))" } ?? ""
    return snapshot.mode.wireName + end + reason
  }
}

extension BreakerSnapshot {
  /// Whether the next call is a probe.
  var isNextCallProbe: Bool {
    isProbeDue || (state == .halfOpen && mode == .automatic && permits)
  }
}

/// The words about breakers that flap.
enum FlappingWords {
  static let mark = "flapping"

  /// When a breaker flaps; a test compares the words with the rule.
  static let rule = "\(Flapping.outages) or more outages in the last hour"
}

/// History entries, one aligned row each.
struct HistoryLines {
  /// The present, for ages beside the times on a terminal; nil in a pipe.
  var now: BreakerTimestamp?

  /// The width at which rows are wrapped; nil for no wrapping.
  var width: Int?

  /// Whether each row names its breaker, because the entries are about several.
  var hasNames = false

  /// The widths of the columns, so that later entries are aligned with earlier ones.
  private var widths: [Int] = []

  /// The widest text that widens its column; a longer one only moves the rest of its row.
  private var widest: Int { max(30, (width ?? 120) / 3) }

  init(now: BreakerTimestamp? = nil, width: Int? = nil, hasNames: Bool = false) {
    self.now = now
    self.width = width
    self.hasNames = hasNames
  }

  func render(_ rows: [HistoryRow]) -> [String] {
    var copy = self
    return copy.add(rows)
  }

  /// The lines of further entries, aligned with those of earlier ones.
  mutating func add(_ entries: [HistoryEntry]) -> [String] { add(entries.map { .entry($0) }) }

  /// The lines of further rows, aligned with those of earlier ones.
  mutating func add(_ entries: [HistoryRow]) -> [String] {
    let rows = entries.map { times(of: $0.at) + cells(of: $0).map(VisibleText.bare) }
    for row in rows {
      if widths.isEmpty { widths = row.map { _ in 0 } }
      for (index, text) in row.enumerated() {
        let width = TextWidth.of(text)
        if width <= widest { widths[index] = max(widths[index], width) }
      }
    }
    return zip(rows, entries).flatMap { texts, entry in
      let row = row(of: texts, ending: ending(entry))
      return width.map { row.lines(width: $0) } ?? [row.line]
    }
  }

  /// A row with its times aligned on the right, where their seconds are.
  private func row(of texts: [String], ending: String) -> FlowingRow {
    let count = now == nil ? 1 : 2
    let times = zip(texts, widths).prefix(count).map { text, width in
      String(repeating: " ", count: max(0, width - text.count)) + text + "  "
    }
    return FlowingRow(
      lead: times.joined(), cells: texts.dropFirst(count) + [ending],
      widths: Array(widths.dropFirst(count)))
  }

  /// One entry in a few words, without its name and its time: `closed -> open: 5 failures`.
  static func words(_ entry: HistoryEntry) -> String {
    VisibleText.bare(entry.change.words() + (entry.reason.map { ": \($0)" } ?? ""))
  }

  /// One entry as a line of its own.
  static func sentence(_ entry: HistoryEntry, at now: BreakerTimestamp) -> String {
    "\(Age.clock(of: entry.at, at: now))  \(entry)"
  }

  private func times(of time: BreakerTimestamp) -> [String] {
    guard let now else { return [time.description] }
    return [Age.clock(of: time, at: now), Age.short(of: time, at: now)]
  }

  private func cells(of row: HistoryRow) -> [String] {
    let name = hasNames ? [VisibleText.name(row.name)] : []
    switch row {
    case .entry(let entry): return name + [entry.change.wireKind, entry.change.words()]
    case .cycles(let cycles): return name + ["repeated", cycles.words]
    }
  }

  /// The author and the reason, at the end of the line because a reason can be a kilobyte long.
  private func ending(_ row: HistoryRow) -> String {
    switch row {
    case .entry(let entry):
      return VisibleText.bare(entry.reason.map { "\(entry.author): \($0)" } ?? entry.author)
    case .cycles(let cycles):
      let last = cycles.last.at
      return "until \(now.map { Age.clock(of: last, at: $0) } ?? last.description)"
    }
  }
}

import SharedBreaker

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
    var parts = [snapshot.state.wireName]
    if snapshot.isNextCallProbe {
      parts.append("the next call is a probe")
    } else if let wait = snapshot.mode == .automatic ? snapshot.retryAfter : snapshot.openEndsIn,
      wait > .zero
    {
      parts.append("retry in \(SpokenDuration.format(wait))")
    }
    if snapshot.state == .closed, snapshot.consecutiveFailures > 0 {
      parts.append(CountedNoun.text(snapshot.consecutiveFailures, "consecutive failure"))
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
  /// The number of probes that hold a slot.
  var probesUnderWay: Int64 { Int64(leases.count { !$0.isOwnerGone }) }

  /// Whether the next call is a probe.
  var isNextCallProbe: Bool {
    isProbeDue || (state == .halfOpen && mode == .automatic && permits)
  }
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

  func render(_ entries: [HistoryEntry]) -> [String] {
    var copy = self
    return copy.add(entries)
  }

  /// The lines of further entries, aligned with those of earlier ones.
  mutating func add(_ entries: [HistoryEntry]) -> [String] {
    let rows = entries.map { times(of: $0) + cells(of: $0).map(VisibleText.bare) }
    for row in rows {
      if widths.isEmpty { widths = row.map { _ in 0 } }
      for (index, text) in row.enumerated() {
        let width = TextWidth.of(text)
        if width <= widest { widths[index] = max(widths[index], width) }
      }
    }
    return zip(rows, entries).flatMap { texts, entry in
      let row = row(of: texts, ending: Self.ending(entry))
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

  private func times(of entry: HistoryEntry) -> [String] {
    guard let now else { return [entry.at.description] }
    return [Age.clock(of: entry.at, at: now), Age.short(of: entry.at, at: now)]
  }

  private func cells(of entry: HistoryEntry) -> [String] {
    (hasNames ? [VisibleText.name(entry.name)] : [])
      + [entry.change.wireKind, entry.change.words()]
  }

  /// The author and the reason, at the end of the line because a reason can be a kilobyte long.
  private static func ending(_ entry: HistoryEntry) -> String {
    VisibleText.bare(entry.reason.map { "\(entry.author): \($0)" } ?? entry.author)
  }
}

import SharedBreaker

/// Which breakers have a mode, and who has set it and why, in one line each.
enum ModeLines {
  /// How many breakers get a line, so that the lines do not drown the table.
  private static let most = 5

  /// The lines, those of the worst first, each cut to `width` columns at its end, where the reason is.
  static func text(
    of snapshots: [BreakerSnapshot], at now: BreakerTimestamp, width: Int
  ) -> [String] {
    let forced = WorryOrder.sorted(snapshots.filter { $0.mode != .automatic })
    var lines = forced.prefix(most).map { line(of: $0, at: now) }
    if forced.count > most {
      lines.append("\(forced.count - most) more have a mode: 'cbctl show NAME' says who set it")
    }
    return lines.map { TextWidth.cut($0, to: width) }
  }

  private static func line(of snapshot: BreakerSnapshot, at now: BreakerTimestamp) -> String {
    let end = snapshot.modeEndsIn.map { "for \(SpokenDuration.format($0))" } ?? "without an end"
    var line = "\(VisibleText.name(snapshot.name)): \(snapshot.mode.wireName) \(end), set"
    if let time = snapshot.modeSetAt { line += " " + Age.text(of: time, at: now) }
    if let author = snapshot.modeSetBy { line += " by " + VisibleText.bare(author) }
    return line + (snapshot.modeReason.map { ": \(VisibleText.bare($0))" } ?? "")
  }
}

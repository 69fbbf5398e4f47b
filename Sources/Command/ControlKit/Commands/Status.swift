import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let status = CommandSpec(
    name: "status",
    summary: "list breakers, worst first",
    arguments: [.patterns],
    options: [
      OptionSpec(
        name: "state", kind: .choice(BreakerState.allCases.map(\.wireName)),
        summary: "list only breakers in this state"),
      OptionSpec(
        name: "mode", kind: .choice(ChosenMode.words),
        summary: "list only breakers with this mode; set is every mode but automatic"),
    ],
    details: [
      "This command changes nothing: it makes no call and creates no store.",
      "FAILURES counts consecutive failures, or those within the policy's time; the number after "
        + "the slash opens the breaker. RETRY-IN is how much longer calls are rejected; 'due' means "
        + "that the next call is a probe. SINCE is when the state last changed, in UTC, and FOR is "
        + "how long ago that was, or the same of the mode if one is set. NOTE marks a breaker that is "
        + "flapping: it had \(FlappingWords.rule), and was healthy only between them. BUSY is how many "
        + "units of work are under way and how many max-concurrent permits, and QUEUE how many callers "
        + "wait for room; \(LimitWords.unknown) means that nobody knows.",
      "HELD and RAMP are how much longer calls are held, or come back one by one. BEGUN is how many calls have "
        + "begun in the time of rate, and how many may. RETRIES is how many calls were sent again in the last 10s, "
        + "beside how many first attempts, and the share of retry-budget.",
      "A terminal shows the most important columns that fit, and a last line with the number of "
        + "breakers in each state. In a pipe, the columns are always the same, with full times and "
        + "one word in each.",
      "A breaker that does not exist is an error. A pattern that matches no name only prints a "
        + "message on standard error.",
    ],
    examples: [
      Example("cbctl status", "list every breaker"),
      Example("cbctl status 'payments-*' --state open --json", "list some open ones as JSON"),
      Example("cbctl status --mode set", "list those that somebody has forced"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.patterns
    let state = parsed.text("state").flatMap { BreakerState(wireName: $0) }
    let mode = parsed.text("mode").map { ChosenMode(word: $0) }
    var chosen = try context.snapshots(fitting: patterns, in: state)
    if let mode { chosen.removeAll { !mode.has($0.mode) } }
    if context.global.isJSON {
      BreakerDocument.write(WorryOrder.sorted(chosen)) { context.print($0) }
    } else if !chosen.isEmpty {
      let isTerminal = context.console.isOutputTerminal
      let table = StatusTable(snapshots: chosen, now: isTerminal ? context.now() : nil)
      context.print(table.render(width: context.console.width, painter: context.painter))
      if isTerminal, !context.global.isQuiet {
        let summary = SummaryLine.text(
          of: chosen, width: context.console.width, painter: context.painter)
        context.print("\n\(summary)\n")
        let width = context.console.width ?? HelpPage.width
        let now = context.now()
        let lines =
          FlappingLine.text(of: chosen, width: width)
          + ModeLines.text(of: chosen, at: now, width: width)
        context.print(lines.map { $0 + "\n" }.joined())
        // The worst come first, so they have scrolled off a small screen.
        let isLong = context.console.height.map { chosen.count + lines.count + 4 > $0 } ?? false
        if isLong, let worst = SummaryLine.worst(of: chosen, width: context.console.width ?? 80) {
          context.print(worst + "\n")
        }
        if let hint = try context.fleetStanding()?.hint(at: context.now()) {
          let lines = TextWrap.lines(hint, width: width)
          context.print(lines.map { context.painter.paint($0, .yellow) + "\n" }.joined())
        }
      }
    }
    for note in try notes(patterns, state, mode, chosen, context) { context.note(note) }
    return .done
  }

  /// Messages about patterns, a state and a mode that nothing matches.
  private static func notes(
    _ patterns: [NamePattern], _ state: BreakerState?, _ mode: ChosenMode?,
    _ chosen: [BreakerSnapshot], _ context: CommandContext
  ) throws(ControlError) -> [String] {
    var unmatched = patterns.filter { pattern in
      !chosen.contains { pattern.matches($0.name) }
    }
    // Reading all names is worth it only if something was not found.
    guard chosen.isEmpty || !unmatched.isEmpty else { return [] }
    let names = try context.names()
    if names.isEmpty { return ["no breakers yet: the first call through one creates it"] }
    let count = CountedNoun.text(names.count, "breaker")
    unmatched = unmatched.filter { pattern in !names.contains { pattern.matches($0) } }
    if !unmatched.isEmpty {
      return unmatched.map {
        "no name matches \(VisibleText.quoted($0.text)): the store has \(count)"
      }
    }
    let asked = [state?.wireName, mode?.words].compactMap { $0 }
    guard !asked.isEmpty, chosen.isEmpty else { return [] }
    return ["no matching breaker is \(asked.joined(separator: " and ")): the store has \(count)"]
  }
}

/// The mode of the breakers that are listed: one of the modes, or any but `automatic`.
private struct ChosenMode {
  private static let anySet = "set"

  static let words = BreakerMode.allCases.map(\.wireName) + [anySet]

  /// The mode; nil for any but `automatic`.
  private let mode: BreakerMode?

  init(word: String) { mode = BreakerMode(wireName: word) }

  func has(_ other: BreakerMode) -> Bool { mode.map { $0 == other } ?? (other != .automatic) }

  var words: String { mode?.wireName ?? "forced or observed" }
}

/// The line about breakers that flap, which their states alone would hide.
enum FlappingLine {
  /// At most one line, cut to `width` columns.
  static func text(of snapshots: [BreakerSnapshot], width: Int) -> [String] {
    let names = WorryOrder.sorted(snapshots.filter(\.isFlapping)).map { VisibleText.name($0.name) }
    guard !names.isEmpty else { return [] }
    let text = "\(FlappingWords.mark): \(names.joined(separator: ", ")) (\(FlappingWords.rule))"
    return [TextWidth.cut(text, to: width)]
  }
}

/// The line below the table that counts the breakers in each state.
enum SummaryLine {
  /// The state or mode of a breaker as one word, the worst first.
  private enum Standing: Int, CaseIterable {
    case forcedOpen, open, halfOpen, held, ramping, due, flapping, forcedClosed, observe, closed

    init(_ snapshot: BreakerSnapshot) {
      self =
        switch (snapshot.mode, snapshot.state) {
        case (.forcedOpen, _): .forcedOpen
        case (.forcedClosed, _): .forcedClosed
        case (.observe, _): .observe
        case (.automatic, .open): snapshot.isProbeDue ? .due : .open
        case (.automatic, .halfOpen): .halfOpen
        case _ where snapshot.rejection?.cause == .held: .held
        case _ where snapshot.ramp != nil: .ramping
        default: snapshot.isFlapping ? .flapping : .closed
        }
    }

    var words: String {
      switch self {
      case .forcedOpen: BreakerMode.forcedOpen.wireName
      case .open: BreakerState.open.wireName
      case .halfOpen: BreakerState.halfOpen.wireName
      case .held: RejectionCause.held.rawValue
      case .ramping: RejectionCause.ramping.rawValue
      case .due: "due"
      case .flapping: FlappingWords.mark
      case .forcedClosed: BreakerMode.forcedClosed.wireName
      case .observe: BreakerMode.observe.wireName
      case .closed: BreakerState.closed.wireName
      }
    }

    var color: Color {
      switch self {
      case .forcedOpen, .open: .red
      case .halfOpen, .held, .ramping, .due, .flapping, .forcedClosed, .observe: .yellow
      case .closed: .green
      }
    }
  }

  /// The line, which leaves out the least worrying counts first if `width` is too small.
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

  /// The names of the worst breakers, whose lines have scrolled off the screen; nil if all are well.
  static func worst(of snapshots: [BreakerSnapshot], width: Int) -> String? {
    let worst = WorryOrder.sorted(
      snapshots.filter { !$0.permits || $0.state != .closed || $0.isFlapping })
    guard !worst.isEmpty else { return nil }
    let names = worst.map { VisibleText.name($0.name) }.joined(separator: ", ")
    return TextWidth.cut("worst: \(names)", to: width)
  }
}

/// Lines about breakers that have a mode or hold calls: what it is, its author, and its reason.
enum ModeLines {
  /// How many breakers get a line, so that the lines do not drown the table.
  private static let most = 5

  /// The lines, the worst first, each cut to `width` columns, so that the reason is what is cut.
  static func text(
    of snapshots: [BreakerSnapshot], at now: BreakerTimestamp, width: Int
  ) -> [String] {
    let forced = WorryOrder.sorted(snapshots.filter { $0.mode != .automatic })
    var lines = forced.prefix(most).map { line(of: $0, at: now) }
    if forced.count > most {
      lines.append("\(forced.count - most) more have a mode: 'cbctl show NAME' says who set it")
    }
    let held = WorryOrder.sorted(
      snapshots.filter { $0.mode == .automatic && ($0.hold?.endsIn ?? .zero) > .zero })
    lines += held.prefix(most).map { line(of: $0) }
    if held.count > most {
      lines.append("\(held.count - most) more are held: 'cbctl show NAME' says why")
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

  private static func line(of snapshot: BreakerSnapshot) -> String {
    let author = snapshot.hold?.setBy.map { ", told by \(VisibleText.bare($0))" } ?? ""
    return "\(VisibleText.name(snapshot.name)): \(HoldWords.standing(snapshot) ?? "")\(author)"
  }
}

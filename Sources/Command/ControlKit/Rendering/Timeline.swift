@_spi(Command) import SharedBreaker

/// The states of a breaker over a span of time, as far as its history shows.
struct Timeline: Sendable, Hashable {
  /// A stretch in which nothing changed.
  struct Stretch: Sendable, Hashable {
    /// The state; nil if the breaker did not exist, or if its history is no longer kept.
    var state: BreakerState?

    /// Whether an open breaker's open time was over, so that it rejected no call; nil if unknown.
    ///
    /// The history does not record when open times end; the snapshot has the end of the latest one.
    var isDue: Bool?
    var mode: BreakerMode

    /// Whether calls were held, until a call or a user has ended the hold.
    var isHeld = false
    var start: BreakerTimestamp
    var end: BreakerTimestamp

    var course: Course {
      let course = Course(state, isDue: isDue, mode)
      return isHeld && state != nil && mode == .automatic ? max(course, .held) : course
    }

    /// Whether state, mode and hold are the same as in another stretch.
    func isLike(_ other: Stretch) -> Bool {
      state == other.state && isDue == other.isDue && mode == other.mode && isHeld == other.isHeld
    }

    var milliseconds: Int64 { end.millisecondsSince1970 - start.millisecondsSince1970 }
  }

  /// The treatment of calls, from best to worst.
  enum Course: Int, Sendable, Hashable, Comparable, CaseIterable {
    case unknown, passing

    /// Open with its open time over: the next call is a probe.
    case due
    case probing

    /// Rejected, while the resource works and has asked to be left alone.
    case held

    /// Open; it is unknown for how much of that time calls were rejected.
    case open
    case rejecting

    /// Rejected and let through in turn, while the breaker flapped; no single stretch has this course.
    case flapping

    init(_ state: BreakerState?, isDue: Bool?, _ mode: BreakerMode) {
      switch (mode, state) {
      case (_, nil): self = .unknown
      case (.forcedOpen, _): self = .rejecting
      case (.automatic, .open): self = isDue.map { $0 ? .due : .rejecting } ?? .open
      case (.automatic, .halfOpen): self = .probing
      default: self = .passing
      }
    }

    /// The treatment of calls in words, for people.
    var words: String {
      switch self {
      case .unknown: "unknown"
      case .passing: "let through"
      case .due: "due"
      case .probing: "probed"
      case .held: "held"
      case .open: "open"
      case .rejecting: "rejected"
      case .flapping: "flapping"
      }
    }

    static func < (left: Course, right: Course) -> Bool { left.rawValue < right.rawValue }
  }

  /// The stretches in order and without gaps, from the start of the span to its end.
  private(set) var stretches: [Stretch]

  /// The times in which the breaker flapped, in order, from the first outage to the beginning of the last.
  private(set) var flapping: [Range<BreakerTimestamp>]

  /// Reads a breaker's history, which is oldest first and may begin before the span.
  init(
    of snapshot: BreakerSnapshot, history: [HistoryEntry], from start: BreakerTimestamp,
    to end: BreakerTimestamp
  ) {
    var reading = Reading(of: snapshot, history: history)
    for entry in history { reading.add(entry) }
    stretches = reading.finish(at: end).compactMap { stretch in
      var stretch = stretch
      stretch.start = max(stretch.start, start)
      stretch.end = min(stretch.end, end)
      return stretch.start < stretch.end ? stretch : nil
    }
    flapping = Self.flapping(in: history).compactMap { range in
      let clamped = range.clamped(to: start..<max(start, end))
      return clamped.isEmpty ? nil : clamped
    }
  }

  /// The times in which a breaker with this history flapped, by the rule of ``Flapping``.
  private static func flapping(in history: [HistoryEntry]) -> [Range<BreakerTimestamp>] {
    let outages = history.filter(\.beginsOutage).map(\.at).sorted()
    var ranges: [Range<BreakerTimestamp>] = []
    for (first, last) in zip(outages, outages.dropFirst(Flapping.outages - 1))
    where last < first.later(by: Flapping.span) {
      if let before = ranges.last, first <= before.upperBound {
        ranges[ranges.count - 1] = before.lowerBound..<last
      } else {
        ranges.append(first..<last)
      }
    }
    return ranges
  }

  /// The worst that happened in each of `count` parts of equal length.
  ///
  /// Where the breaker flapped, a part in which calls were let through too is not one long outage.
  func worst(inEachOf count: Int) -> [Course] {
    guard count > 0, let first = stretches.first, let last = stretches.last else { return [] }
    let start = first.start.millisecondsSince1970
    let length = Double(last.end.millisecondsSince1970 - start) / Double(count)
    func parts(from begin: BreakerTimestamp, to end: BreakerTimestamp) -> Range<Int> {
      let from = max(0, Int(Double(begin.millisecondsSince1970 - start) / length))
      let to = Int((Double(end.millisecondsSince1970 - start) / length).rounded(.up))
      return from..<max(from, min(count, max(to, from + 1)))
    }
    var worst = [Course](repeating: .unknown, count: count)
    var hasPassed = [Bool](repeating: false, count: count)
    for stretch in stretches {
      for part in parts(from: stretch.start, to: stretch.end) {
        worst[part] = max(worst[part], stretch.course)
        hasPassed[part] = hasPassed[part] || stretch.course == .passing
      }
    }
    for range in flapping {
      for part in parts(from: range.lowerBound, to: range.upperBound)
      where hasPassed[part] && worst[part] > .passing {
        worst[part] = .flapping
      }
    }
    return worst
  }

  /// How long calls took one course in total, and in how many periods.
  func extent(of course: Course) -> (milliseconds: Int64, spells: Int) {
    if course == .flapping {
      let lengths = flapping.map {
        $0.upperBound.millisecondsSince1970 - $0.lowerBound.millisecondsSince1970
      }
      return (lengths.reduce(0, +), lengths.count)
    }
    var result: (milliseconds: Int64, spells: Int) = (0, 0)
    var previous: Course?
    for stretch in stretches {
      if stretch.course == course {
        result.milliseconds += stretch.milliseconds
        if previous != course { result.spells += 1 }
      }
      previous = stretch.course
    }
    return result
  }
}

extension Timeline {
  /// Builds stretches from history entries, one after the other.
  private struct Reading {
    private let snapshot: BreakerSnapshot

    /// Whether the history has every change of the state since the breaker was created.
    private let isComplete: Bool
    private var stretches: [Stretch] = []
    private var state: BreakerState?
    private var isDue: Bool?
    private var mode: BreakerMode

    /// When the hold began or was last prolonged, as far as the history tells; nil while there is none.
    private var heldAt: BreakerTimestamp?
    private var start = BreakerTimestamp(millisecondsSince1970: .min)

    init(of snapshot: BreakerSnapshot, history: [HistoryEntry]) {
      self.snapshot = snapshot
      mode = history.lazy.compactMap { $0.change.modeBefore }.first ?? snapshot.mode
      // Each change of the state raises the generation, so fewer entries mean that some are lost.
      let deletion = history.lastIndex { $0.change.isDeletion }
      let changes = history[(deletion.map { $0 + 1 } ?? 0)...].filter { $0.change.raisesGeneration }
      // A probe's deadline may have opened the breaker, which only the next call records.
      let isProbed = changes.last?.change.stateAfter == .halfOpen
      let unrecorded = isProbed && snapshot.state == .open ? 1 : 0
      let isEachChangeKept = snapshot.generation == Int64(changes.count + unrecorded) + 1
      // Holds raise the generation too, and not each of them has an entry.
      let isFromTheBeginning = deletion != nil || history.first?.isFirst == true
      isComplete =
        isEachChangeKept || (history.contains(where: \.change.isHold) && isFromTheBeginning)
    }

    mutating func add(_ entry: HistoryEntry) {
      beginIfMade(before: entry.at)
      switch entry.change {
      case .transition, .suspicion, .reset:
        move(to: entry.at)
        state = entry.change.stateAfter
        if case .reset = entry.change { heldAt = nil }
      case .hold(let change):
        move(to: entry.at)
        heldAt = change == .ended ? nil : entry.at
      case .mode(_, let next):
        move(to: entry.at)
        mode = next
      case .deletion:
        move(to: entry.at)
        state = nil
        mode = .automatic
        heldAt = nil
      case .policy, .probe: break
      // An unknown change may have restarted the open time, as an extension does.
      default: move(to: entry.at)
      }
    }

    mutating func finish(at end: BreakerTimestamp) -> [Stretch] {
      beginIfMade(before: end)
      // The snapshot shows what time alone has changed; the history records it at the next call.
      let changed = state == snapshot.state ? nil : snapshot.changedAt
      let modeEnd = mode == snapshot.mode ? nil : snapshot.modeEndedAt
      let openEnd = snapshot.dueFor.map { end.earlier(by: $0) }
      // Without the time of the change, the state is unknown.
      if state != snapshot.state, changed == nil { state = nil }
      let isEndKnown = openEnd != nil || snapshot.openEndsIn != .zero
      if state == .open, isEndKnown { isDue = false }
      let holdEnd = endOfHold(before: end)
      for time in [changed, modeEnd, openEnd, holdEnd].compactMap({ $0 }).sorted() {
        move(to: time)
        if time == holdEnd { heldAt = nil }
        if time == changed {
          state = snapshot.state
          if state == .open, isEndKnown { isDue = false }
        }
        if time == modeEnd { mode = snapshot.mode }
        if time == openEnd { isDue = true }
      }
      mode = snapshot.mode
      move(to: end)
      return stretches
    }

    /// When the hold was over, if no call has shown it yet.
    private func endOfHold(before end: BreakerTimestamp) -> BreakerTimestamp? {
      guard let heldAt, let hold = snapshot.hold, hold.endsIn == .zero else { return nil }
      return min(end, heldAt.later(by: hold.length))
    }

    /// A breaker begins closed, also if it is created again after a deletion.
    private mutating func beginIfMade(before time: BreakerTimestamp) {
      guard state == nil, isComplete, let created = snapshot.createdAt, created <= time else {
        return
      }
      move(to: created)
      state = .closed
    }

    /// Ends a stretch, never before it began, even if the wall clock was set back.
    private mutating func move(to time: BreakerTimestamp) {
      let end = max(start, time)
      let next = Stretch(
        state: state, isDue: isDue, mode: mode, isHeld: heldAt != nil, start: start, end: end)
      if let last = stretches.last, last.isLike(next) {
        stretches[stretches.count - 1].end = end
      } else {
        stretches.append(next)
      }
      start = end
    }
  }
}

extension BreakerChange {
  /// Whether the change raised the generation: an open breaker that is tripped again keeps its own.
  fileprivate var raisesGeneration: Bool {
    switch self {
    case .transition(let from, let to), .suspicion(let from, let to): from != to
    case .reset: true
    default: false
    }
  }

  fileprivate var isDeletion: Bool { if case .deletion = self { true } else { false } }

  fileprivate var isHold: Bool { if case .hold = self { true } else { false } }

  fileprivate var modeBefore: BreakerMode? {
    if case .mode(let from, _) = self { from } else { nil }
  }
}

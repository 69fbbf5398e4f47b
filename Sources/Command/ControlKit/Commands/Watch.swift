import BreakerDocuments
@_spi(Command) import SharedBreaker

extension CommandSpec {
  static let watch = CommandSpec(
    name: "watch",
    summary: "show breakers live, or print their changes",
    arguments: [.patterns],
    details: [
      "On a terminal, this is the table of 'status' kept up to date, with the calls a second that "
        + "succeeded, failed and were rejected in the last five seconds. Changes by any process "
        + "appear at once. q or ^C quits; the arrow keys, j, k, space, b, g and G scroll; ^Z "
        + "suspends it.",
      "In a pipe, or with --json or TERM=dumb, it prints one line for each breaker and then one "
        + "for each change and for each breaker that is new, until the reader of its output is gone. "
        + "Each line has the state of the breaker when the line is printed. If the store is deleted or cannot be read, a line on "
        + "standard error says so, and another says when it is back. Each breaker has its line again "
        + "then, because it may be another store.",
      "The store wakes the command at a change; once a second it looks for breakers that are new. It "
        + "changes nothing.",
    ],
    examples: [
      Example("cbctl watch 'payments-*'", "watch some breakers during an outage"),
      Example("cbctl watch --json | ./to-chat", "pass every change to a program"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.patterns
    // A name that no breaker has is an error now; later it is the name of a deleted breaker.
    try context.connectToExisting()
    for pattern in patterns where pattern.isName { _ = try context.snapshot(of: pattern.text) }
    let news = try context.news(of: nil)
    let console = context.console
    if console.canDraw, !context.global.isJSON, let output = console.outputDescriptor,
      let screen = Screen(output: output)
    {
      defer { screen.end() }
      return LiveView(context, screen, patterns, news).run()
    }
    var lines = ChangeLines(context, patterns, news)
    try lines.run()
    return .done
  }
}

/// The states of breakers and their changes, one line each, for a pipe.
struct ChangeLines {
  private let context: CommandContext
  private let patterns: [NamePattern]
  private let news: HistoryNews

  /// The names of the breakers that have had a line, as bytes, because texts of other bytes can be equal.
  private var shown: Set<[UInt8]> = []

  /// The breakers that the last look found without a line.
  private var unshown: Set<[UInt8]> = []

  /// The store that the lines are about; nil if it could not be read.
  private var lineage: String?

  /// How often it looks for breakers that no entry tells of: calls create breakers without one.
  private static let period = Duration.seconds(1)

  init(_ context: CommandContext, _ patterns: [NamePattern], _ news: HistoryNews) {
    (self.context, self.patterns, self.news) = (context, patterns, news)
  }

  /// Prints until the output has no reader any more.
  mutating func run() throws(ControlError) {
    try printAll()
    let poll = DescriptorPoll(
      descriptors: [news.descriptor], output: context.console.outputDescriptor)
    var due = ContinuousClock.now + Self.period
    while context.isOutputOpen {
      let end = poll.wait(atMost: max(.zero, due - ContinuousClock.now))
      let delivery = news.take()
      context.tell(delivery.turn)
      if case .readable = delivery.turn { try printAll() }
      for entry in delivery.entries where NamePattern.matches(entry.name, patterns) {
        let snapshot = try context.ask { store throws(StoreError) in
          try store.snapshot(of: entry.name)
        }
        context.print(line(entry.at, snapshot, entry))
        note(entry.name, exists: snapshot != nil)
      }
      if end.isOutputClosed { return }
      let now = ContinuousClock.now
      guard now >= due else { continue }
      lookForOthers()
      // Looking at a large store takes at most a tenth of the time.
      due = ContinuousClock.now + max(Self.period, (ContinuousClock.now - now) * 9)
    }
  }

  /// Prints how each breaker is now.
  private mutating func printAll() throws(ControlError) {
    lineage = try context.ask { store throws(StoreError) in try store.lineage() }
    let now = context.now()
    let snapshots = WorryOrder.sorted(try context.matching(patterns))
    if snapshots.isEmpty { context.note("no breaker matches yet: waiting for the first change") }
    context.print(snapshots.map { line(now, $0, nil) }.joined())
    shown = Set(snapshots.map { Array($0.name.utf8) })
  }

  private mutating func note(_ name: String, exists: Bool) {
    if exists { shown.insert(Array(name.utf8)) } else { shown.remove(Array(name.utf8)) }
  }

  /// Prints the breakers that have no line yet, and all of them if another store has taken the place of
  /// this one.
  ///
  /// A breaker has its line at the second look, because most that are new have an entry by then.
  private mutating func lookForOthers() {
    do throws(ControlError) {
      let lineage = try context.ask { store throws(StoreError) in try store.lineage() }
      guard lineage == self.lineage else { return try printAll() }
      let beginning = NamePattern.commonBeginning(of: patterns)
      let names = try context.ask { store throws(StoreError) in
        try store.names(beginningWith: beginning)
      }.filter { NamePattern.matches($0, patterns) }
      shown.formIntersection(names.map { Array($0.utf8) })
      let others = names.filter { !shown.contains(Array($0.utf8)) }
      for name in others where unshown.contains(Array(name.utf8)) {
        let snapshot = try context.ask { store throws(StoreError) in try store.snapshot(of: name) }
        guard let snapshot else { continue }
        context.print(line(context.now(), snapshot, nil))
        note(name, exists: true)
      }
      unshown = Set(others.map { Array($0.utf8) })
    } catch {
      // The news says what is wrong with the store, and when it can be read again.
    }
  }

  private func line(
    _ at: BreakerTimestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> String {
    if context.global.isJSON {
      return BreakerDocument.change(at, snapshot, entry).text + "\n"
    }
    return ChangeLines.text(at, snapshot, entry) + "\n"
  }

  /// The time, the breaker's present state, and what has happened.
  static func text(
    _ at: BreakerTimestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> String {
    let standing =
      snapshot.map { StateLine.text(of: $0) }
      ?? "\(VisibleText.name(entry?.name ?? "")): deleted"
    return "\(at)  \(standing)" + (entry.map { " (\(HistoryLines.words($0)))" } ?? "")
  }
}

extension BreakerDocument {
  /// A line of `watch --json`: the change, null for the first lines, and the breaker's present state.
  static func change(
    _ at: BreakerTimestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> JSONValue {
    .object([
      .init("at", time(at)),
      .init("change", entry.map(EntryDocument.of) ?? .null),
      .init("breaker", snapshot.map { .object(members(of: $0)) } ?? .null),
    ])
  }
}

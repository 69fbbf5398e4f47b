import BreakerDocuments
import SharedBreaker

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
        + "for each change, until the reader of its output is gone. Each line has the state of the "
        + "breaker when the line is printed. If the store is deleted or cannot be read, a line on "
        + "standard error says so, and another says when it is back. Each breaker has its line again "
        + "then, because it may be another store.",
      "The command sleeps until the store wakes it, and changes nothing.",
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
    defer { news.end() }
    let console = context.console
    if console.canDraw, !context.global.isJSON, let output = console.outputDescriptor,
      let screen = Screen(output: output)
    {
      defer { screen.end() }
      return LiveView(context, screen, patterns, news).run()
    }
    try ChangeLines(context, patterns, news).run()
    return .done
  }
}

/// The states of breakers and their changes, one line each, for a pipe.
struct ChangeLines {
  private let context: CommandContext
  private let patterns: [NamePattern]
  private let news: News

  init(_ context: CommandContext, _ patterns: [NamePattern], _ news: News) {
    (self.context, self.patterns, self.news) = (context, patterns, news)
  }

  /// Prints until the output has no reader any more.
  func run() throws(ControlError) {
    try printAll()
    let poll = DescriptorPoll(
      descriptors: [news.descriptor], output: context.console.outputDescriptor)
    while context.isOutputOpen {
      let end = poll.wait()
      let delivery = news.take()
      context.tell(delivery.troubles)
      if delivery.troubles.contains(nil) { try printAll() }
      for entry in delivery.entries where NamePattern.matches(entry.name, patterns) {
        let snapshot = try context.ask { store throws(StoreError) in
          try store.snapshot(of: entry.name)
        }
        context.print(line(entry.at, snapshot, entry))
      }
      if end.isOutputClosed { return }
    }
  }

  /// Prints how each breaker is now.
  private func printAll() throws(ControlError) {
    let now = context.now()
    let snapshots = WorryOrder.sorted(try context.matching(patterns))
    if snapshots.isEmpty { context.note("no breaker matches yet: waiting for the first change") }
    context.print(snapshots.map { line(now, $0, nil) }.joined())
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

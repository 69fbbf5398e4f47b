import BreakerDocuments
import SharedBreaker

/// The states of breakers and their changes, one line each, for a pipe.
struct ChangeLines {
  private let context: CommandContext
  private let patterns: [NamePattern]
  private let news: News

  init(_ context: CommandContext, _ patterns: [NamePattern], _ news: News) {
    (self.context, self.patterns, self.news) = (context, patterns, news)
  }

  /// Prints until nobody reads the output any more.
  func run() throws(ControlError) {
    let now = context.now()
    let snapshots = WorryOrder.sorted(try context.watched(patterns))
    if snapshots.isEmpty { context.note("no breaker matches yet: waiting for the first change") }
    context.print(snapshots.map { line(now, $0, nil) }.joined())
    let poll = DescriptorPoll(
      descriptors: [news.descriptor], output: context.console.outputDescriptor)
    while context.isOutputOpen {
      let end = poll.wait()
      let delivery = news.take()
      context.tell(delivery.troubles)
      for entry in delivery.entries where isWanted(entry.name) {
        let snapshot = try context.ask { store throws(StoreError) in
          try store.snapshot(of: entry.name)
        }
        context.print(line(entry.at, snapshot, entry))
      }
      if end.isOutputClosed { return }
    }
  }

  private func isWanted(_ name: String) -> Bool {
    patterns.isEmpty || patterns.contains { $0.matches(name) }
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
  /// A line of `watch --json`: the change, null at the beginning, and the breaker's present state.
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

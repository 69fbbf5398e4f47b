import BreakerDocuments
@_spi(Command) import SharedBreaker

extension CommandSpec {
  static let history = CommandSpec(
    name: "history",
    summary: "list changes and operators' commands, oldest first",
    arguments: [
      .patterns
    ],
    options: [
      OptionSpec(
        name: "since", kind: .past,
        summary: "list only what happened in the last D, or since T, such as 09:00 or yesterday"),
      OptionSpec(
        name: "limit", kind: .countFromZero,
        summary: "list only the newest N entries (default: all; 10 with --follow alone)"),
      OptionSpec(name: "follow", letter: "f", summary: "then print each new entry as it happens"),
      OptionSpec(name: "all", summary: "list every entry, even if it repeats earlier ones"),
    ],
    details: [
      "On a terminal, a breaker that opens and closes again and again has one line for what is between "
        + "the first and the last of these changes. --all lists them one by one, as in a pipe.",
      "With --json, each line is one object.",
      "--follow begins with the last 10 entries, or with those that --since or --limit asks for; "
        + "with --limit 0 it begins with none.",
      "--follow sleeps until a process changes something, and ends when you stop it or when the "
        + "reader of its output is gone. If the store's file is deleted, it says so on standard "
        + "error and waits for a new one; if the file is replaced, it continues with the new one.",
    ],
    examples: [
      Example("cbctl history payments --since 1h", "list what happened in the last hour"),
      Example(
        "cbctl history 'payments-*' --follow", "print the last 10 entries, then each new one"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.patterns
    let name = patterns.count == 1 && patterns[0].isName ? patterns[0].text : nil
    let isFollowing = parsed.has("follow")
    let since = try context.beginning(parsed, help: "history")
    let usualLimit = isFollowing && since == nil ? usualTail : nil
    let limit = parsed.number("limit").map { Int($0) } ?? usualLimit
    if limit == 0, !isFollowing {
      throw .usage("--limit 0 without --follow", "it would print nothing", help: "history")
    }
    try context.connectToExisting()
    // Listening begins before the first read, so that no entry is missed between the two.
    let news = isFollowing ? try context.news(of: name) : nil
    let isOfSome = name == nil && !patterns.isEmpty
    var entries = try context.ask { store throws(StoreError) in
      try store.history(of: name, since: since, limit: isOfSome ? nil : limit.map { max(1, $0) })
    }
    entries.removeAll { !NamePattern.matches($0.name, patterns) }
    for pattern in patterns
    where pattern.isName && !entries.contains(where: { pattern.matches($0.name) }) {
      try context.checkHistory(of: pattern.text)
    }
    if let limit { entries.removeFirst(max(0, entries.count - limit)) }
    let isTerminal = context.console.isOutputTerminal
    var lines = HistoryLines(
      now: isTerminal ? context.now() : nil, width: context.console.width, hasNames: name == nil)
    if isTerminal, !context.global.isJSON, !parsed.has("all") {
      context.print(lines.add(HistoryRow.folded(entries)).map { $0 + "\n" }.joined())
    } else {
      context.print(entries, &lines)
    }
    if let news {
      context.follow(news, patterns, after: entries, &lines)
    } else if entries.isEmpty {
      // Something may have changed: a store keeps only so many entries.
      context.note("no history: no change\(since == nil ? "" : " in that time") is on record")
    }
    return .done
  }

  /// How many entries a followed history begins with, as many as `tail -f` has lines.
  private static let usualTail = 10
}

extension CommandContext {
  /// The instant that `--since` names; nil without it.
  func beginning(
    _ parsed: ParsedCommand, help: String
  ) throws(ControlError) -> BreakerTimestamp? {
    guard let text = parsed.text("since") else { return nil }
    let now = now()
    guard let time = TimeText.past(text, now: now), time <= now else {
      throw .usage("--since \(VisibleText.quoted(text))", "that time has not come", help: help)
    }
    return time
  }

  /// Throws if a name without a listed change is no breaker and never was one.
  fileprivate func checkHistory(of name: String) throws(ControlError) {
    let latest = try ask { store throws(StoreError) in
      try store.history(of: name, since: nil, limit: 1)
    }
    // A deleted breaker still has a history.
    if latest.isEmpty { _ = try snapshot(of: name) }
  }

  fileprivate func print(_ entries: [HistoryEntry], _ lines: inout HistoryLines) {
    guard !entries.isEmpty else { return }
    if lines.now != nil { lines.now = now() }
    let texts = global.isJSON ? entries.map { EntryDocument.of($0).text } : lines.add(entries)
    print(texts.map { $0 + "\n" }.joined())
  }

  /// Prints entries as they happen, until the output has no reader any more.
  fileprivate func follow(
    _ news: HistoryNews, _ patterns: [NamePattern], after entries: [HistoryEntry],
    _ lines: inout HistoryLines
  ) {
    var tail = HistoryTail(after: entries)
    let poll = DescriptorPoll(descriptors: [news.descriptor], output: console.outputDescriptor)
    while isOutputOpen {
      let end = poll.wait(atMost: news.longestWait)
      let delivery = news.take()
      tell(delivery.turn)
      let unseen = tail.unseen(of: delivery.entries)
      print(unseen.filter { NamePattern.matches($0.name, patterns) }, &lines)
      if end.isOutputClosed { return }
    }
  }
}

/// Finds where the news continue a printed history, so that each entry is printed exactly once.
///
/// Listening begins before the history is read, so both may have some entries.
struct HistoryTail {
  /// The identity of an entry, whose number a new file may use again.
  private struct Mark: Hashable {
    var id: Int64
    var at: BreakerTimestamp
    var name: String

    init(_ entry: HistoryEntry) { (id, at, name) = (entry.id, entry.at, entry.name) }
  }

  private let printed: Set<Mark>
  private var last: Int64

  init(after printed: [HistoryEntry]) {
    self.printed = Set(printed.map { Mark($0) })
    last = printed.last?.id ?? 0
  }

  /// Returns the next entries, without those that have been printed.
  mutating func unseen(of news: [HistoryEntry]) -> [HistoryEntry] {
    var unseen: [HistoryEntry] = []
    // After a gap the store may have a new file, whose numbers begin again.
    for entry in news where entry.isAfterGap || entry.id > last {
      last = entry.id
      if !printed.contains(Mark(entry)) { unseen.append(entry) }
    }
    return unseen
  }
}

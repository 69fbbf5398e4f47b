import SharedBreaker

extension CommandSpec {
  static let history = CommandSpec(
    name: "history",
    summary: "list changes and operators' commands, oldest first",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .name, count: .optional,
        summary: "the breaker (default: every breaker)")
    ],
    options: [
      OptionSpec(name: "since", kind: .duration, summary: "list only what happened in the last D"),
      OptionSpec(name: "limit", kind: .count, summary: "list only the newest N entries"),
      OptionSpec(name: "follow", letter: "f", summary: "then print each new entry as it happens"),
    ],
    details: [
      "With --json, each line is one object.",
      "--follow sleeps until any process changes something, and ends when you stop it or when "
        + "nobody reads its output any more. If the store's file is replaced, it continues with "
        + "the new file.",
    ],
    examples: [
      Example("cbctl history payments --since 1h", "list what happened in the last hour"),
      Example("cbctl history --follow --limit 10", "print the last 10 entries, then each new one"),
    ]
  ) { context, parsed throws(ControlError) in
    try context.connectToExisting()
    let name = parsed.text("NAME")
    let since = parsed.duration("since").map { context.now().earlier(by: $0) }
    let limit = parsed.number("limit").map { Int($0) }
    // Listening begins before the first read, so that no entry is missed between the two.
    let news = parsed.has("follow") ? try context.news(of: name) : nil
    defer { news?.end() }
    let entries = try context.ask { store throws(StoreError) in
      try store.history(of: name, since: since, limit: limit)
    }
    // The history of a deleted breaker can still be read, so only an empty one checks the name.
    if entries.isEmpty, let name { _ = try context.snapshot(of: name) }
    let isTerminal = context.console.isOutputTerminal
    var lines = HistoryLines(
      now: isTerminal ? context.now() : nil, width: context.console.width, hasNames: name == nil)
    context.print(entries, &lines)
    if let news {
      context.follow(news, after: entries, &lines)
    } else if entries.isEmpty {
      context.note("no history: nothing has changed in that time")
    }
    return .done
  }
}

extension CommandContext {
  fileprivate func print(_ entries: [HistoryEntry], _ lines: inout HistoryLines) {
    guard !entries.isEmpty else { return }
    if lines.now != nil { lines.now = now() }
    let texts = global.isJSON ? entries.map(\.json.text) : lines.add(entries)
    print(texts.map { $0 + "\n" }.joined())
  }

  /// Prints entries as they happen, until nobody reads the output any more.
  fileprivate func follow(
    _ news: News, after entries: [HistoryEntry], _ lines: inout HistoryLines
  ) {
    // Listening began first, so the first read may already have printed some of these entries.
    var last = entries.last?.id ?? 0
    let waiting = Waiting(descriptors: [news.descriptor], output: console.outputDescriptor)
    while isOutputOpen {
      let end = waiting.wait()
      var fresh: [HistoryEntry] = []
      // If the store's file was replaced, the numbers may start from the beginning.
      for entry in news.take() where entry.isAfterGap || entry.id > last {
        fresh.append(entry)
        last = entry.id
      }
      print(fresh, &lines)
      if end.isOutputClosed { return }
    }
  }
}

import SharedBreaker

/// How breakers stand, and what happens to them, one line each, for a pipe.
struct ChangeLines {
  private let session: Session
  private let patterns: [NamePattern]
  private let news: News

  init(_ session: Session, _ patterns: [NamePattern], _ news: News) {
    (self.session, self.patterns, self.news) = (session, patterns, news)
  }

  /// Prints until nobody reads it any more.
  func run() throws(ControlError) {
    let now = session.now()
    let snapshots = WorryOrder.sorted(try session.watched(patterns))
    if snapshots.isEmpty { session.note("no such breaker yet: waiting for its first change") }
    session.print(snapshots.map { line(now, $0, nil) }.joined())
    let waiting = Waiting(
      descriptors: [news.descriptor], output: session.console.outputDescriptor)
    while session.isOutputOpen {
      let end = waiting.wait()
      for entry in news.take() where isWanted(entry.name) {
        let snapshot = try session.ask { store throws(StoreError) in
          try store.snapshot(of: entry.name)
        }
        session.print(line(entry.at, snapshot, entry))
      }
      if end.isOutputClosed { return }
    }
  }

  private func isWanted(_ name: String) -> Bool {
    patterns.isEmpty || patterns.contains { $0.matches(name) }
  }

  private func line(
    _ at: Timestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> String {
    if session.global.isJSON {
      return BreakerDocument.change(at, snapshot, entry).text + "\n"
    }
    return ChangeLines.text(at, snapshot, entry) + "\n"
  }

  /// When, what, how it stands now, and what has happened.
  static func text(
    _ at: Timestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> String {
    let standing =
      snapshot.map { StateLine.text(of: $0) }
      ?? "\(VisibleText.name(entry?.name ?? "")): deleted"
    return "\(at)  \(standing)" + (entry.map { " (\(HistoryLines.words($0)))" } ?? "")
  }
}

extension BreakerDocument {
  /// A line of `watch --json`: the change, null at the beginning, and how the breaker stands by now.
  static func change(
    _ at: Timestamp, _ snapshot: BreakerSnapshot?, _ entry: HistoryEntry?
  ) -> JSONValue {
    .object([
      .init("at", time(at)),
      .init("change", entry?.json ?? .null),
      .init("breaker", snapshot.map { .object(members(of: $0)) } ?? .null),
    ])
  }
}

internal import BreakerCore

/// The history of breakers in the memory of one process; its owner has the lock.
struct MemoryHistory {
  private var kept: [RecordedEvent] = []

  /// The latest event of each breaker, kept or not.
  private var latest: [NameBytes: Int64] = [:]

  /// The latest event of all; 0 if there is none.
  private(set) var newest: Int64 = 0

  mutating func add(_ event: BreakerEvent, of name: String, by author: HistoryAuthor) {
    newest += 1
    let previous = latest.updateValue(newest, forKey: NameBytes(name))
    kept.append(
      RecordedEvent(
        id: newest, atMilliseconds: event.atMilliseconds, name: name, change: event.change,
        reason: event.reason, pid: author.pid, program: author.program, previous: previous,
        origin: event.origin, mandate: author.mandate))
    let excess = kept.count - Int(EventTable.eventsOfOneBreaker)
    if excess > 0 { kept.removeFirst(excess) }
  }

  /// The newest `limit` events after an instant, oldest first.
  func events(of name: String?, sinceMilliseconds: Int64?, limit: Int?) -> [RecordedEvent] {
    let found = kept.filter {
      $0.isOf(name) && $0.atMilliseconds >= sinceMilliseconds ?? .min
    }
    return limit.map { Array(found.suffix(max(0, $0))) } ?? found
  }

  /// The oldest `limit` events after one.
  func events(after id: Int64, of name: String?, limit: Int) -> [RecordedEvent] {
    Array(kept.lazy.filter { $0.id > id && $0.isOf(name) }.prefix(limit))
  }
}

extension RecordedEvent {
  /// Whether it is an event of the breaker of a name; without a name it is one of any.
  fileprivate func isOf(_ name: String?) -> Bool {
    name.map { NameBytes($0) == NameBytes(self.name) } ?? true
  }
}

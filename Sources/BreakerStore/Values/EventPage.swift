/// Consecutive events of a store.
package struct EventPage: Sendable, Hashable {
  /// Identifies this store among all others.
  package var store: Int64

  /// The latest event of the store, whether or not it is on this page; 0 if there is none.
  package var newest: Int64

  /// The oldest events that match the request.
  package var events: [StoredEvent]
}

extension StoredEvent {
  /// Whether an event between an earlier event and this one is no longer kept.
  ///
  /// If there is a name, only events of that breaker count.
  package func isAfterGap(since earlier: Int64, of name: String?) -> Bool {
    guard name != nil, earlier >= 0 else { return id != earlier + 1 }
    // No earlier event of its breaker was kept when this one was written, so there may be a gap.
    return previous.map { $0 > earlier } ?? (earlier < id - EventTable.eventsOfAll)
  }
}

/// Events that follow one another in a store.
package struct EventPage: Sendable, Hashable {
  /// What tells this store from every other.
  package var store: Int64

  /// The latest event that has happened at all; 0 if there is none.
  package var newest: Int64

  /// The oldest of those that were asked for.
  package var events: [StoredEvent]
}

extension StoredEvent {
  /// Whether something that happened after an earlier event, and before this one, is no longer kept.
  ///
  /// With a name, only what happened to that breaker is of interest.
  package func isAfterGap(since earlier: Int64, of name: String?) -> Bool {
    guard name != nil, earlier >= 0 else { return id != earlier + 1 }
    // The first that was kept of its breaker when it was written: there may have been others.
    return previous.map { $0 > earlier } ?? (earlier < id - BreakerTable.eventsOfAll)
  }
}

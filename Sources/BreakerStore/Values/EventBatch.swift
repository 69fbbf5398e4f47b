package import BreakerCore

/// Consecutive events of a store.
package struct EventBatch: Sendable, Hashable {
  /// Identifies this store among all others.
  package var store: Int64

  /// The latest event of the store, whether or not it is in this batch; 0 if there is none.
  package var newest: Int64

  /// The oldest events that match the request.
  package var events: [RecordedEvent]
}

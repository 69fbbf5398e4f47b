package import BreakerCore

/// One event of the history, with the number that orders it among those of all breakers.
///
/// It is what a store keeps of a `BreakerEvent`, and what a `HistoryEntry` is made of.
package struct RecordedEvent: Sendable, Hashable {
  package var id: Int64

  /// When it happened, which may be before it was written.
  package var atMilliseconds: Int64
  package var name: String
  package var change: BreakerChange
  package var reason: String?
  package var pid: Int32
  package var program: String

  /// The event before it of the same breaker, kept or not; nil if there is none.
  package var previous: Int64?
}

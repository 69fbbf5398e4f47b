package import BreakerCore

/// One event of the history.
package struct StoredEvent: Sendable, Hashable {
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

/// A policy that code declared, and who was the last to declare it.
package struct StoredDeclaration: Sendable, Hashable {
  package var words: String
  package var atMilliseconds: Int64
  package var pid: Int32
  package var program: String
}

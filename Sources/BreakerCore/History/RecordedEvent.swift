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
  package var mandate: HistoryAuthor.Mandate

  /// The event before it of the same breaker, kept or not; nil if there is none.
  package var previous: Int64?

  /// The host of the fleet that it came from; nil for this host.
  package var origin: String?

  /// How many events are kept of all breakers together.
  package static let mostOfAll: Int64 = 50_000

  package init(
    id: Int64, atMilliseconds: Int64, name: String, change: BreakerChange, reason: String?,
    pid: Int32, program: String, previous: Int64? = nil, origin: String? = nil,
    mandate: HistoryAuthor.Mandate = .none
  ) {
    self.id = id
    self.atMilliseconds = atMilliseconds
    self.name = name
    self.change = change
    self.reason = reason
    self.pid = pid
    self.program = program
    self.mandate = mandate
    self.previous = previous
    self.origin = origin
  }

  /// Whether an event between an earlier event and this one is no longer kept.
  ///
  /// If there is a name, only events of that breaker count.
  package func isAfterGap(since earlier: Int64, of name: String?) -> Bool {
    guard name != nil, earlier >= 0 else { return id != earlier + 1 }
    // No earlier event of its breaker was kept when this one was written, so there may be a gap.
    return previous.map { $0 > earlier } ?? (earlier < id - Self.mostOfAll)
  }
}

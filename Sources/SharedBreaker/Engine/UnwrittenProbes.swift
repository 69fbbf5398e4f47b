/// How probes went that ended while the store could not take it.
///
/// Everything else that is counted without the store is forgotten. A probe holds a slot in the store, for which every
/// process would wait until its deadline.
struct UnwrittenProbes {
  private var entries: [Entry] = []

  struct Entry {
    let cell: Cell
    let report: Engine.Report
  }

  /// More probes of one process are hardly ever under way, and the deadline ends what is left out.
  private static let room = 1_000

  /// Remembers a report if it is about a probe that the store has granted.
  mutating func note(_ report: Engine.Report, of cell: Cell) {
    guard report.ticket.source == .store, report.ticket.grant.kind == .probe,
      entries.count < Self.room
    else { return }
    entries.append(Entry(cell: cell, report: report))
  }

  /// Gives up what is to be written now.
  mutating func take() -> [Entry] {
    defer { entries = [] }
    return entries
  }
}

/// How probes went that ended while the store could not be written.
///
/// Everything else that is counted without the store is forgotten. But a probe holds a slot in the
/// store, for which every process would wait until its deadline.
struct UnwrittenProbes {
  private var entries: [Entry] = []

  final class Entry: Sendable {
    let cell: Cell
    let report: Engine.Report

    init(_ report: Engine.Report, of cell: Cell) { (self.report, self.cell) = (report, cell) }
  }

  /// More than a process ever has under way; the deadline ends those that are left out.
  private static let room = 1_000

  var first: Entry? { entries.first }

  mutating func note(_ report: Engine.Report, of cell: Cell) {
    if entries.count < Self.room { entries.append(Entry(report, of: cell)) }
  }

  /// Removes an entry that was written, which another thread may have written too.
  mutating func remove(_ entry: Entry) { entries.removeAll { $0 === entry } }
}

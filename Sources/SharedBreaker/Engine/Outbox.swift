internal import BreakerStore

/// The cells that may have something of this process to write: counts, or a declaration.
struct Outbox {
  private var entries: [Entry] = []
  private var noted: Set<ObjectIdentifier> = []

  private struct Entry {
    let cell: Cell

    /// How many times in a row there was nothing to write.
    var quietRounds: UInt8 = 0

    /// Whether the cell can be forgotten: by then no call still adds to this process's own counts.
    var isWritten: Bool { quietRounds >= 2 }
  }

  var cells: [Cell] { entries.map(\.cell) }

  /// Remembers a cell that may have something to write.
  mutating func note(_ cell: Cell, by knowledge: Knowledge) {
    guard Self.mayHaveToWrite(cell, knowledge) else { return }
    guard noted.insert(ObjectIdentifier(cell)).inserted else { return }
    entries.append(Entry(cell: cell))
  }

  /// Forgets cells that have had nothing to write for two rounds.
  mutating func forgetWritten(by knowledge: Knowledge) {
    if entries.isEmpty { return }
    for index in entries.indices {
      let isQuiet = !Self.mayHaveToWrite(entries[index].cell, knowledge)
      entries[index].quietRounds = isQuiet ? entries[index].quietRounds + 1 : 0
    }
    for entry in entries where entry.isWritten { noted.remove(ObjectIdentifier(entry.cell)) }
    entries.removeAll(where: \.isWritten)
  }

  private static func mayHaveToWrite(_ cell: Cell, _ knowledge: Knowledge) -> Bool {
    knowledge[cell].isUndeclared || cell.mayHavePending
  }
}

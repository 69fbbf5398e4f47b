/// Rows in memory, whose changes can be undone until they are kept.
///
/// Only the rows that a transaction touches are remembered: a copy of the whole table would be made
/// at its first change.
struct MemoryTable<Key: Hashable, Row> {
  private(set) var rows: [Key: Row] = [:]
  private var changes: [(key: Key, before: Row?)] = []

  subscript(key: Key) -> Row? {
    get { rows[key] }
    set {
      changes.append((key, rows[key]))
      rows[key] = newValue
    }
  }

  /// Changes or deletes every row that there is.
  mutating func mapRows(_ row: (Key, Row) -> Row?) {
    for (key, before) in rows { self[key] = row(key, before) }
  }

  /// Keeps what has changed.
  mutating func commit() { changes.removeAll(keepingCapacity: changes.count < 16) }

  /// Undoes what has changed since it was last kept.
  mutating func rollBack() {
    for change in changes.reversed() { rows[change.key] = change.before }
    commit()
  }
}

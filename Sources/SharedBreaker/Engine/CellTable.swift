internal import BreakerStore

/// Cells by the bytes of their names.
///
/// A dictionary would keep a second copy of each name, which is most of what a cell needs.
struct CellTable {
  private var slots: [Cell?] = Array(repeating: nil, count: 16)
  private(set) var count = 0

  /// The cell of a name, or nil if there is none.
  subscript(name: String) -> Cell? { slots[slot(of: name)] }

  /// Every cell, in no order.
  var cells: some Sequence<Cell> { slots.lazy.compactMap { $0 } }

  /// Adds a cell of a name that has none.
  mutating func insert(_ cell: Cell) {
    // At least a quarter is free, so that a search soon comes to its end.
    if (count + 1) * 4 > slots.count * 3 { grow() }
    slots[slot(of: cell.name)] = cell
    count += 1
  }

  /// Where the cell of a name is, or would be.
  private func slot(of name: String) -> Int {
    let mask = slots.count - 1
    let name = NameBytes(name)
    var index = name.hashValue & mask
    while let cell = slots[index], NameBytes(cell.name) != name {
      index = (index + 1) & mask
    }
    return index
  }

  private mutating func grow() {
    let earlier = slots
    slots = Array(repeating: nil, count: 2 * earlier.count)
    for case let cell? in earlier { slots[slot(of: cell.name)] = cell }
  }
}

/// The coming events, earliest first; those of one instant in the order in which they were added.
struct Agenda<Event> {
  private var items: [Item] = []
  private var added = 0

  private struct Item {
    var at: Int64
    var number: Int
    var event: Event

    func isBefore(_ other: Item) -> Bool {
      at == other.at ? number < other.number : at < other.at
    }
  }

  mutating func add(_ event: Event, at: Int64) {
    items.append(Item(at: at, number: added, event: event))
    added += 1
    var child = items.count - 1
    while child > 0, items[child].isBefore(items[(child - 1) / 2]) {
      items.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  mutating func next() -> (at: Int64, event: Event)? {
    guard let first = items.first else { return nil }
    let last = items.removeLast()
    guard !items.isEmpty else { return (first.at, first.event) }
    items[0] = last
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < items.count {
        if items[child].isBefore(items[least]) { least = child }
      }
      if least == parent { break }
      items.swapAt(parent, least)
      parent = least
    }
    return (first.at, first.event)
  }
}

/// Repairs the stamps that a host gave while its clock was far ahead, and that no other host accepts.
///
/// A command that was given with the wrong clock is forgotten. A command that was given after the
/// clock was set has such a stamp only because the host had already seen higher ones, so it gets the
/// stamp that it should have had.
package struct FleetCorrection: Sendable, Hashable {
  private var stamps: [Int64: Int64] = [:]

  /// The highest stamp that any command has after the repair; 0 if none is left.
  package private(set) var highest: Int64

  /// - Parameters:
  ///   - orders: The commands that the host remembers, and those that it has not told the others yet.
  ///   - latest: The highest stamp that a command can have.
  ///   - host: The host itself.
  package init(_ orders: some Sequence<FleetOrder>, above latest: Int64, of host: String) {
    highest = 0
    var wrong: [FleetOrder] = []
    for order in orders {
      if order.stamp <= latest {
        highest = max(highest, order.stamp)
      } else if order.host == host, order.givenAt.wallMilliseconds <= latest {
        wrong.append(order)
      }
    }
    for order in wrong.sorted(by: { $0.stamp < $1.stamp }) where stamps[order.stamp] == nil {
      highest = max(highest + 1, order.givenAt.wallMilliseconds)
      stamps[order.stamp] = highest
    }
  }

  /// A command with a right stamp; nil if it is to be forgotten.
  package func corrected(_ order: FleetOrder) -> FleetOrder? {
    stamps[order.stamp].map { order.stamped($0) }
  }
}

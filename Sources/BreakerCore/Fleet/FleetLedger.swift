/// Remembers the commands that a host has seen for one breaker, and decides which of two is later.
///
/// Hosts that have had the same commands have the same registers, in whatever order and however
/// often the commands came.
package struct FleetLedger: Sendable, Hashable {
  /// The highest stamp that the host has seen, on a command to any breaker.
  package var stamp: Int64
  package var registers: [FleetAspect: FleetRegister]

  package init(stamp: Int64 = 0, registers: [FleetAspect: FleetRegister] = [:]) {
    self.stamp = stamp
    self.registers = registers
  }

  /// The stamp of the next command of this host; nil if there is no higher one.
  ///
  /// It is the time on the wall clock, so that a host that has not heard of the others for a while
  /// gives later commands than theirs. But it is always higher than any that was seen, so that a
  /// host whose clock is behind the others' is not overtaken by what it has answered to.
  package func nextStamp(at now: Moment) -> Int64? {
    guard stamp < FleetCommand.highestStamp else { return nil }
    return min(max(stamp, 0, now.wallMilliseconds - 1) + 1, FleetCommand.highestStamp)
  }

  /// Notes a command of this host, which has been carried out.
  package mutating func gave(_ order: FleetOrder) { _ = take(order, isInForce: true) }

  /// Notes a command that came from elsewhere.
  ///
  /// - Returns: The aspects that it is the latest command about, which the breaker has yet to
  ///   follow.
  package mutating func heard(_ order: FleetOrder) -> [FleetAspect] {
    take(order, isInForce: false)
  }

  private mutating func take(_ order: FleetOrder, isInForce: Bool) -> [FleetAspect] {
    stamp = max(stamp, order.stamp)
    let news = order.action.aspects.filter { aspect in
      registers[aspect].map { order.isLater(than: $0.order) } ?? true
    }
    for aspect in news {
      registers[aspect] = FleetRegister(order.only(aspect), isInForce: isInForce)
    }
    return news
  }

  /// Whether the breaker follows less than all that a command says.
  package func isWaiting(for order: FleetOrder) -> Bool {
    order.action.aspects.contains { aspect in
      registers[aspect].map { !$0.isInForce && $0.order == order.only(aspect) } ?? false
    }
  }

  /// Notes which of some aspects the breaker follows now.
  package mutating func note(_ isInForce: Bool, _ aspects: some Sequence<FleetAspect>) {
    for aspect in aspects { registers[aspect]?.isInForce = isInForce }
  }
}

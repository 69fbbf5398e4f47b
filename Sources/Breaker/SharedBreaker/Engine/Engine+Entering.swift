internal import BreakerCore
internal import BreakerStore

/// The first call of this process under a limit.
///
/// Where only short-lived processes call, as those of cron do, none of them lives until its first round, and none
/// looks for the dead as long as there is room. So each looks once, before its first call.
extension Engine {
  /// Records the calls that processes have lost which ended before this one came; false if there are none, or if
  /// they cannot be recorded now.
  ///
  /// A probe is not kept waiting: it has a lease, and its outcome says more.
  func settleWhatOthersLeft(
    before ticket: Ticket, under inForce: LimitInForce, of cell: Cell
  ) -> Bool {
    guard ticket.kind != .probe else { return false }
    inForce.limit.slots.lookOnArrival()
    return recordLostCalls(of: cell, under: inForce.limit)
  }

  /// Whether there are such calls, for a caller that must not wait.
  func hasToSettleWhatOthersLeft(
    before ticket: Ticket, under inForce: LimitInForce, of cell: Cell
  ) -> Bool {
    guard ticket.kind != .probe else { return false }
    inForce.limit.slots.lookOnArrival()
    return mayRecordLostCalls(of: cell, under: inForce.limit)
  }
}

extension Engine {
  /// Whether other processes see the calls that this one makes under the limit of a breaker; true without a limit.
  func sharesLimit(of cell: Cell) -> Bool {
    guard let limit = cell.limit?.limit else { return true }
    guard let row = look({ $0.knowledge[cell].row }), let slots = storage.slots(ofBreaker: row)
    else { return false }
    return slots === limit.slots && slots.areCallsSeen
  }
}

extension Breaker {
  /// Whether other processes see the calls that this one makes under the breaker's limit; true without a limit.
  ///
  /// A process whose calls others cannot see keeps to the limit alone, or to none if too many processes take part.
  @_spi(Command) public var sharesLimit: Bool { engine.sharesLimit(of: cell) }
}

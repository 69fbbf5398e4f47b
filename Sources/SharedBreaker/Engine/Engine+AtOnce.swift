internal import BreakerCore
internal import BreakerStore

/// What can be answered from memory, for callers that must not wait for a file or another process.
///
/// Nothing has changed where the answer is nil: the caller asks again where it may wait.
extension Engine {
  /// Admits a call; nil if that takes a look at the store, or a write.
  func admitAtOnce(
    _ request: Request, to cell: Cell
  ) throws(BreakerError) -> Decision<Ticket>? {
    try decideAtOnce(request, on: cell)?.spread(by: cell)
  }

  private func decideAtOnce(
    _ request: Request, on cell: Cell
  ) throws(BreakerError) -> Decision<Ticket>? {
    guard !isRoundDue(inSecond: second) else { return nil }
    switch nextTurn(of: cell) {
    case .tryAgain: return nil
    case .goWithout(let trouble): return try admitWithoutStore(request, to: cell, trouble)
    case .use: break
    }
    guard isCurrent else { return nil }
    let word = cell.word
    if word.has(CellWord.permits) { return .permitted(Ticket(word)) }
    return look { $0.knowledge[cell].known }.flatMap { assess($0, of: cell) }
  }

  /// Takes the outcome of a call; nil if that takes a look at the store, or a write.
  func acceptAtOnce(_ report: Report, of cell: Cell) -> ReportVerdict? {
    let isStores = report.ticket.source == .store && report.ticket.isOwn
    // The others never wait.
    guard isStores, options.processes.ending() == nil else { return accept(report, of: cell) }
    switch nextTurn(of: cell) {
    case .tryAgain: return nil
    case .goWithout: return acceptAlone(report, of: cell)
    case .use: break
    }
    guard isCurrent, !report.outcome.isFailure else { return nil }
    if countUnchanged(report, of: cell) { return .counted }
    return look { $0.knowledge[cell].known }.flatMap { count(report, of: cell, $0) }
  }

  /// What the next call of a breaker does about the store.
  private func nextTurn(of cell: Cell) -> Availability.Turn {
    if isAvailable, !isAlone(cell) { return .use }
    let now = clock.coarseNanoseconds
    return look {
      let turn = $0.availability.nextTurn(at: now)
      if case .use = turn { return $0.availability.nextTurn(of: cell, at: now) }
      return turn
    }
  }
}

internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// The way of a healthy call: a few loads and one addition, no lock and no system call.
extension Engine {
  func enter(_ cell: Cell, onFailure: StoreFailureAction) throws(BreakerError) -> Admission {
    if !isRoundDue, isCurrent {
      let word = cell.word.load(ordering: .acquiring)
      if word & Cell.permitsFlag != 0 {
        let grant = PermitGrant(kind: .normal, generation: Int64(bitPattern: word >> 3))
        return .permitted(
          Ticket(grant: grant, breaker: 0, source: .store, process: ForkGuard.generation))
      }
    }
    return try admit(cell, owner: ownProcess(), onFailure: onFailure)
  }

  func leave(
    _ cell: Cell, _ ticket: Ticket, _ outcome: Outcome, elapsed: Duration?
  ) -> ReportVerdict {
    if case .success = outcome, elapsed == nil, ticket.grant.kind == .normal,
      case .store = ticket.source, ticket.process == ForkGuard.generation, isCurrent
    {
      let word = cell.word.load(ordering: .acquiring)
      if word & Cell.countsOnlyFlag != 0 {
        cell.countSuccess()
        return Int64(bitPattern: word >> 3) == ticket.grant.generation ? .counted : .outdated
      }
    }
    return report(outcome, for: ticket, of: cell, elapsed: elapsed)
  }

  /// Whether the policy looks at how long calls take.
  func measures(_ cell: Cell) -> Bool {
    cell.word.load(ordering: .acquiring) & Cell.measuresFlag != 0
  }
}

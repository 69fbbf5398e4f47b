internal import BreakerCore
internal import BreakerStore

/// What a relay and an operator of a fleet do.
extension Engine {
  /// Does what a relay requests, and tells the observer what came of it.
  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    let done = try storage.carryOut(request)
    update { $0.collect(done.events, done.syncError) }
    return done
  }

  /// Who acts in this process, as modes and commands name it.
  var author: String {
    HistoryAuthor(pid: ownProcess().pid, program: program, mandate: mandate).words
  }

  /// A command to be told to the other hosts; nil if it is for this host alone.
  func given(
    _ action: FleetCommand.Action, to cell: Cell, _ reason: String?, _ scope: CommandScope
  ) throws(BreakerError) -> GivenCommand? {
    guard scope == .fleet else { return nil }
    do throws(StoreError) {
      let isHeld = try storage.isRelayHeld()
      let fleet = try storage.fleet()
      if isHeld, fleet != nil { return GivenCommand(action, reason: reason, author: author) }
    } catch {
      throw .store(error)
    }
    throw .noRelay(name: cell.name)
  }
}

internal import BreakerCore
internal import BreakerStore

/// Doing without the store, and coming back to it.
extension Engine {
  /// What keeps the store from being used; nil if it can be.
  ///
  /// Once a second one call tries it again; all others go on without it.
  func trouble() -> StoreError? {
    if isAvailable { return nil }
    let now = clock.coarseNanoseconds
    switch update({ $0.availability.turn(at: now) }) {
    case .use: return nil
    case .goWithout(let error): return error
    case .tryAgain:
      do throws(StoreError) {
        try waiting(.brief) { () throws(StoreError) in try comeBack() }
      } catch {
        return error
      }
      return nil
    }
  }

  /// Tries the store that failed, and writes what could not be written without it.
  private func comeBack() throws(StoreError) {
    do throws(StoreError) {
      try storage.checkIdentity()
      // A full disk can be read well enough, so only a write shows that there is room again.
      try storage.proveWritable()
      recovered()
      try writeUnwrittenProbes()
    } catch {
      failed(error)
      throw error
    }
  }

  /// Writes everything that this process has yet to write, also if it goes on without the store.
  func flush(wait: Wait = .usual) throws(StoreError) {
    guard hasToWrite else { return }
    try waiting(wait) { () throws(StoreError) in
      if isAvailable { try writeUnwrittenProbes() } else { try comeBack() }
      try writePending()
    }
  }

  private var hasToWrite: Bool {
    look { state in
      state.unwrittenProbes.first != nil
        || state.outbox.cells.contains {
          state.knowledge[$0].isUndeclared || !$0.pending.isZero
        }
    }
  }

  /// What keeps a breaker from being shared; nil if nothing does.
  func trouble(of cell: Cell) -> StoreError? {
    if let trouble = trouble() { return trouble }
    guard isAlone(cell) else { return nil }
    let now = clock.coarseNanoseconds
    switch update({ $0.availability.turn(of: cell, at: now) }) {
    case .use: return nil
    case .goWithout(let error): return error
    case .tryAgain:
      do throws(StoreError) {
        try waiting(.brief) { () throws(StoreError) in
          // Created at once, with what it is to have, so that the next call finds it.
          _ = try step(cell) { _ in }
        }
      } catch {
        failed(error, of: cell)
        return error
      }
      update { $0.availability.hasRoom(for: cell) }
      // The store is the truth again.
      local.forget(cell.name)
      return nil
    }
  }

  /// Goes on without the store: with one breaker if the store has no room for it, else with all.
  ///
  /// A wait that was ended early has shown nothing about the store, so everything stays as it was.
  func failed(_ error: StoreError, of cell: Cell? = nil) {
    if error.isInterrupted { return }
    if error.mayEndByReopening { storage.close() }
    let now = clock.coarseNanoseconds
    update { $0.failed(error, of: cell, at: now) }
  }

  /// Comes back to the store; what was counted without it is forgotten, because the store is the truth.
  private func recovered() {
    // The store knows nothing of those that it has no room for.
    local.clear(keeping: look { $0.availability.namesAlone })
    update { $0.recovered() }
  }

  /// Writes how probes went that ended without the store, which frees their slots.
  ///
  /// - Throws: What kept one from being written; it and those after it remain to be written.
  func writeUnwrittenProbes() throws(StoreError) {
    while let probe = look({ $0.unwrittenProbes.first }) {
      // The child of a fork leaves those that it has inherited to its parent.
      if probe.report.ticket.isOwn { _ = try acceptInStore(probe.report, of: probe.cell) }
      update { $0.unwrittenProbes.remove(probe) }
    }
  }

  /// Makes the next call read everything from the beginning.
  func forgetBaseline() { update { $0.knowledge.forgetBaseline() } }

  func hasConnected() { update { $0.availability.hasConnected() } }
}

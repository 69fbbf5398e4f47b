internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Doing without the store, and coming back to it.
extension Engine {
  /// How long a store that failed is left alone before it is tried again.
  static let pauseNanoseconds: Int64 = 1_000_000_000

  /// What keeps the store from being used, or nil if it can be.
  ///
  /// Once a second one call tries again; all others go on without.
  func trouble() -> StoreError? {
    guard isUnavailable.load(ordering: .relaxed) else { return nil }
    let now = clock.coarseNanoseconds
    let due = nextAttempt.load(ordering: .relaxed)
    if now >= due,
      nextAttempt.compareExchange(
        expected: due, desired: now + Self.pauseNanoseconds, ordering: .relaxed
      ).exchanged
    {
      do throws(StoreError) {
        storage.checkIdentity()
        // A full disk can be read well enough, so only a write shows that it is over.
        try storage.proveWritable()
        becomeAvailable()
        return nil
      } catch {
        failed(error)
        return error
      }
    }
    return cellsLock.withLock {
      if case .unavailable(let error) = unsafe health { error } else { nil }
    }
  }

  /// Goes on without the store until it can be used again.
  func failed(_ error: StoreError) {
    switch error.kind {
    case .busy, .diskFull: break
    default: storage.close()
    }
    let isNew = cellsLock.withLock {
      let wasUnavailable = if case .unavailable = unsafe health { true } else { false }
      unsafe health = .unavailable(error)
      nextAttempt.store(clock.coarseNanoseconds + Self.pauseNanoseconds, ordering: .relaxed)
      // Under the lock, so that it never contradicts the health for long.
      isUnavailable.store(true, ordering: .relaxed)
      return !wasUnavailable
    }
    forgetBaseline()
    if isNew { tell(.unavailable(error)) }
  }

  /// Comes back to the store; what was counted without it is forgotten, for the store is the truth.
  ///
  /// It knows nothing of those that it has no room for.
  private func becomeAvailable() {
    local.clear(keeping: cellsLock.withLock { loneBreakers.names })
    forgetBaseline()
    let isNew = cellsLock.withLock {
      let wasUnavailable = if case .unavailable = unsafe health { true } else { false }
      unsafe health = .connected
      isUnavailable.store(false, ordering: .relaxed)
      return wasUnavailable
    }
    if isNew { tell(.available) }
  }

  /// The store has been read, so it is there.
  func hasConnected() {
    cellsLock.withLock {
      if unsafe health == .untried { unsafe health = .connected }
    }
  }

  /// Writes what healthy calls have left in memory, and what could not be declared.
  func writePending(wait: Wait) {
    for cell in cellsLock.withLock({ unsafe cellsToWrite }) {
      let hasNothing = cellsLock.withLock { !cell.isUndeclared && cell.pending.isZero }
      // One that the store has no room for asks for it at its own next call.
      guard !hasNothing, !isAlone(cell) else { continue }
      do throws(StoreError) {
        _ = try step(cell, wait: wait) { _, _ in }
      } catch {
        if error.kind == .tooManyBreakers {
          failed(error, of: cell)
          continue
        }
        // It can wait; a call that needs the store will find out what is wrong with it.
        return
      }
    }
    cellsLock.withLock { forgetWritten() }
  }

  /// Forgets cells that have had nothing to write for two rounds; under the lock for cells.
  ///
  /// By then no call is left that still counts where they counted for themselves.
  private func forgetWritten() {
    guard unsafe !cellsToWrite.isEmpty else { return }
    unsafe cellsToWrite.removeAll { cell in
      guard cell.hasWrittenAll else { return false }
      unsafe cell.isNoted = false
      return true
    }
  }
}

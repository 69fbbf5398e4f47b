internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// A breaker that the store has no room for, while it can be used for all others.
struct LoneBreaker {
  var error: StoreError

  /// When the store is asked again, on the coarse clock.
  var nextAttempt: Int64
}

extension Engine {
  /// What keeps a breaker from being shared, or nil if nothing does.
  func trouble(of cell: Cell) -> StoreError? {
    if let trouble = trouble() { return trouble }
    guard let lone = lone(cell) else { return nil }
    let now = clock.coarseNanoseconds
    let isDue = cellsLock.withLock {
      guard let its = unsafe loneBreakers[ObjectIdentifier(cell)], now >= its.nextAttempt else {
        return false
      }
      unsafe loneBreakers[ObjectIdentifier(cell)]?.nextAttempt = now + Self.pauseNanoseconds
      return true
    }
    guard isDue else { return lone.error }
    do throws(StoreError) {
      // Made at once, with what it is to have, so that the next call finds it.
      _ = try step(cell, wait: .brief) { _, _ in }
      hasRoom(cell)
      return nil
    } catch {
      failed(error, of: cell)
      return error
    }
  }

  /// Goes on without the store: with one breaker if it has no room for it, else with all.
  func failed(_ error: StoreError, of cell: Cell) {
    guard error.kind == .tooManyBreakers else { return failed(error) }
    let isNew = cellsLock.withLock {
      let wasAlone = unsafe loneBreakers[ObjectIdentifier(cell)] != nil
      unsafe loneBreakers[ObjectIdentifier(cell)] = LoneBreaker(
        error: error, nextAttempt: clock.coarseNanoseconds + Self.pauseNanoseconds)
      hasLoneBreakers.store(true, ordering: .relaxed)
      // What was known of it let calls through from memory.
      cell.forget()
      return !wasAlone
    }
    if isNew { tell(.notShared(name: cell.name, error)) }
  }

  /// Whether a breaker goes on in this process alone, though the store can be used.
  func isAlone(_ cell: Cell) -> Bool { lone(cell) != nil }

  func lone(_ cell: Cell) -> LoneBreaker? {
    guard hasLoneBreakers.load(ordering: .relaxed) else { return nil }
    return cellsLock.withLock { unsafe loneBreakers[ObjectIdentifier(cell)] }
  }

  private func hasRoom(_ cell: Cell) {
    cellsLock.withLock {
      unsafe loneBreakers[ObjectIdentifier(cell)] = nil
      unsafe hasLoneBreakers.store(!loneBreakers.isEmpty, ordering: .relaxed)
    }
    // The store is the truth again.
    _ = local.delete(cell.name, ifStill: nil)
  }
}

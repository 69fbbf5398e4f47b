internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// The breakers that the store has no room for, while it can be used for all others.
@safe final class LoneBreakers: Sendable {
  struct Lone {
    var name: String
    var error: StoreError
  }

  /// Whether there are any, which costs a load to find out.
  let areSome = Atomic<Bool>(false)

  // Under the engine's lock for cells.

  nonisolated(unsafe) private var lone: [ObjectIdentifier: Lone] = [:]

  /// When the store is asked again for room, on the coarse clock: once for all of them together.
  nonisolated(unsafe) var nextAttempt = Int64.min

  subscript(cell: Cell) -> Lone? {
    get { unsafe lone[ObjectIdentifier(cell)] }
    set {
      unsafe lone[ObjectIdentifier(cell)] = newValue
      unsafe areSome.store(!lone.isEmpty, ordering: .relaxed)
    }
  }

  var names: [String] { unsafe lone.values.map(\.name) }
}

extension Engine {
  /// What keeps a breaker from being shared, or nil if nothing does.
  func trouble(of cell: Cell) -> StoreError? {
    if let trouble = trouble() { return trouble }
    guard let lone = lone(cell) else { return nil }
    let now = clock.coarseNanoseconds
    let isDue = cellsLock.withLock {
      guard unsafe now >= loneBreakers.nextAttempt else { return false }
      unsafe loneBreakers.nextAttempt = now + Self.pauseNanoseconds
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
      let wasAlone = loneBreakers[cell] != nil
      loneBreakers[cell] = .init(name: cell.name, error: error)
      unsafe loneBreakers.nextAttempt = clock.coarseNanoseconds + Self.pauseNanoseconds
      // What was known of it let calls through from memory.
      cell.forget()
      return !wasAlone
    }
    if isNew { tell(.notShared(name: cell.name, error)) }
  }

  /// Whether a breaker goes on in this process alone, though the store can be used.
  func isAlone(_ cell: Cell) -> Bool { lone(cell) != nil }

  func lone(_ cell: Cell) -> LoneBreakers.Lone? {
    guard loneBreakers.areSome.load(ordering: .relaxed) else { return nil }
    return cellsLock.withLock { loneBreakers[cell] }
  }

  private func hasRoom(_ cell: Cell) {
    cellsLock.withLock {
      loneBreakers[cell] = nil
      // There may be room for more.
      unsafe loneBreakers.nextAttempt = .min
    }
    // The store is the truth again.
    _ = local.delete(cell.name, ifStill: nil)
  }
}

internal import BreakerCore
internal import BreakerStore

/// Steps of the core on a breaker, each in one transaction.
extension Engine {
  /// Takes a step on a breaker of the store, which is created if there is none.
  @discardableResult
  func step<Answer>(
    _ cell: Cell, wait: Wait = .usual, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker) {
    guard let done = try step(cell, orCreate: true, wait: wait, body) else {
      preconditionFailure("a breaker that may be created was not created")
    }
    return done
  }

  /// Takes a step on a breaker of the store; nil if there is none and none may be created.
  ///
  /// The transaction takes along what this process has yet to write of the breaker.
  func step<Answer>(
    _ cell: Cell, orCreate: Bool, wait: Wait = .usual, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker)? {
    let (own, forgettings) = update { state in
      let memory = state.knowledge[cell]
      let own = OwnShare(
        declared: memory.declaration?.words, isUndeclared: memory.isUndeclared,
        pending: cell.takePending())
      return (own, state.knowledge.forgettings)
    }
    do throws(StoreError) {
      let done = try storage.transact(cell.name, orCreate: orCreate, wait: wait) { draft in
        draft.add(own)
        return body(&draft)
      }
      guard let done else {
        update { $0.keep(own.pending, of: cell) }
        return nil
      }
      hasCommitted(done, of: cell, own, after: forgettings)
      return (done.answer, done.breaker)
    } catch {
      update { $0.keep(own.pending, of: cell) }
      throw error
    }
  }

  /// Takes over what a transaction has written, and tells of it.
  func hasCommitted<Answer>(
    _ done: Transacted<Answer>, of cell: Cell, _ own: OwnShare, after forgettings: Int64
  ) {
    let known = read(done.breaker)
    let others = done.others.map { read($0) }
    update { state in
      if own.isUndeclared, let words = own.declared {
        state.hasDeclared(words, for: cell, at: done.breaker.revision, after: forgettings)
      }
      _ = state.learn(known, of: cell, after: forgettings, keeping: true)
      // Rule of order 5: every cell, before the fingerprint that vouches for all of them.
      for other in others {
        guard let its = state.knowledge.cells[other.breaker.name] else { continue }
        _ = state.learn(other, of: its, after: forgettings, keeping: true)
      }
      if let commit = done.fingerprints {
        state.knowledge.goOn(over: commit, at: done.breaker.revision, after: forgettings)
      }
      state.availability.hasConnected()
      state.collect([(cell.name, done.events)], done.syncError)
    }
  }

  /// Takes a step on the breaker that this process has for itself alone.
  func stepAlone<Answer>(
    _ cell: Cell, orCreate: Bool, _ body: (inout BreakerDraft) -> Answer
  ) -> (answer: Answer, breaker: StoredBreaker)? {
    if orCreate { local.seed(lastKnown(cell).breaker) }
    let done: Transacted<Answer>?
    // Only a command to the fleet can be refused, and none is given while the store is gone.
    do throws(StoreError) {
      done = try local.transact(cell.name, orCreate: orCreate, wait: .usual, body)
    } catch {
      return nil
    }
    guard let done else { return nil }
    if !done.events.isEmpty { update { $0.collect(done.events, of: cell.name, isAlone: true) } }
    return (done.answer, done.breaker)
  }

  /// Takes several steps in one transaction, each on its own breaker, all of them or none.
  ///
  /// - Returns: The names that are there although they must be new: then nothing was changed.
  func step(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> [String] {
    let done = try storage.transact(together: steps, mustBeNew: mustBeNew)
    update { $0.collect(done.events, done.syncError) }
    return done.present
  }

  /// Deletes a breaker; false if there was none, or if it is no longer the version asked for.
  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Bool {
    let done = try storage.delete(name, ifStill: version)
    update { $0.collect([], done.syncError) }
    return done.isDeleted
  }
}

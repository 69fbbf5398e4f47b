internal import BreakerCore
internal import BreakerStore

/// Keeping up with what the store holds.
extension Engine {
  /// What the store holds of a breaker now.
  func known(_ cell: Cell) throws(StoreError) -> Known {
    while true {
      if !isCurrent { try refresh() }
      let (known, forgettings) = look { ($0.knowledge[cell].known, $0.knowledge.forgettings) }
      if let known { return known }
      let found = try storage.find(cell.name)
      if let known = learn(found, of: cell, after: forgettings, keeping: false) { return known }
    }
  }

  /// Takes over what was read of a breaker; what is newer stays.
  ///
  /// - Returns: What is known then; nil if everything was forgotten since the reading began.
  @discardableResult
  func learn(
    _ breaker: StoredBreaker?, of cell: Cell, after forgettings: Int64, keeping: Bool
  ) -> Known? {
    guard let breaker else {
      let now = clock.moment
      return update { $0.learnThatNobodyWrote(cell, after: forgettings, at: now) }
    }
    let read = read(breaker)
    return update { $0.learn(read, of: cell, after: forgettings, keeping: keeping) }
  }

  /// Reads what changed since the last time, for all breakers of this process at once.
  func refresh() throws(StoreError) {
    var events: [StoreEvent] = []
    try refreshes.run(unless: { isCurrent }) { () throws(StoreError) in
      // Rule of order 4: before the rows.
      let fingerprint = storage.currentFingerprint()
      let since = look { $0.knowledge.baseline }
      let changes = try storage.changes(since: since?.revision)
      let changed = changes.breakers.map { read($0) }
      events =
        change {
          $0.takeOver(changes, changed, since: since, fingerprint: fingerprint)
        }.1
    }
    // Rule of order 3: without the lock that refreshes share.
    events.forEach(tell)
  }

  func read(_ breaker: StoredBreaker) -> Known {
    Known(breaker, exists: true, counters: storage.counters(of: breaker))
  }
}

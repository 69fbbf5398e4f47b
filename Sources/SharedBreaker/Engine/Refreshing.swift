internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Keeping up with what the store holds.
extension Engine {
  /// Reads what changed since the last time, for all breakers of this process at once.
  func refresh() throws(StoreError) {
    let arrival = failedRefreshes.load(ordering: .relaxed)
    let overruled = try refreshing.withLock { () throws(StoreError) -> [StoreEvent] in
      if isCurrent { return [] }
      // Who waited behind a thread that waited in vain has waited enough.
      if failedRefreshes.load(ordering: .relaxed) != arrival, let error = unsafe refreshError {
        throw error
      }
      do throws(StoreError) {
        return try readChanges()
      } catch {
        unsafe refreshError = error
        failedRefreshes.add(1, ordering: .relaxed)
        throw error
      }
    }
    overruled.forEach(tell)
  }

  /// Answers what is to be told of it; under the lock for refreshing.
  private func readChanges() throws(StoreError) -> [StoreEvent] {
    let fingerprint = storage.currentFingerprint()
    let since = cellsLock.withLock { unsafe baseline }
    let changes = try storage.changes(since: since?.revision)
    let read = changes.breakers.map {
      Known($0, exists: true, counters: storage.counters(of: $0))
    }
    // The changes alone do not tell what is gone, or what an older copy of the file holds.
    let isContinued =
      since?.continuity == changes.continuity && since?.deletedRevision == changes.deletedRevision
      && changes.revision >= since?.revision ?? .max
    let overruled = cellsLock.withLock {
      if !isContinued { forgetAll() }
      unsafe baseline = Baseline(
        continuity: changes.continuity, revision: changes.revision,
        deletedRevision: changes.deletedRevision)
      return (isContinued ? read : []).compactMap { read in
        unsafe cells[read.breaker.name].flatMap {
          take(read, in: $0, keeping: unsafe $0.known != nil)
        }
      }
    }
    cellsLock.withLock {
      // A call that fails meanwhile has every other call go on without the store.
      let isUsable = !isUnavailable.load(ordering: .relaxed)
      seen.store(isUsable ? fingerprint : 0, ordering: .releasing)
    }
    hasConnected()
    return overruled
  }

  /// Is current again after a commit of this process, which was the only thing that happened.
  ///
  /// Reading back what it has just written would cost a call that fails a third of its time.
  func goOn(
    from before: UInt64, to after: UInt64, at revision: Int64, in era: Int64
  ) {
    cellsLock.withLock {
      // Who has forgotten all meanwhile has not learned what was written.
      guard unsafe era == self.era, let known = unsafe baseline,
        known.revision.addingSaturating(1) == revision,
        seen.load(ordering: .relaxed) == before, before != 0
      else { return }
      unsafe baseline?.revision = revision
      seen.store(after, ordering: .releasing)
    }
  }
}

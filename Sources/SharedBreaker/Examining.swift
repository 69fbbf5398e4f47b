internal import BreakerStore

/// Finding out what is wrong with a store.
extension SharedStore {
  /// Looks at all that the store rests on, and changes nothing.
  ///
  /// It looks at the files and who may use them, the file system, SQLite, the tables and every row,
  /// the log, the counters, and the processes that have the store open. That takes a few seconds for
  /// a large store, and never more than about ten. A fork of this process waits until it is over, which
  /// it then soon is.
  ///
  /// - Returns: What each check has found, in a fixed order.
  /// - Throws: `StoreError` if there is no store, or this user may not look at it.
  public func examine() throws(StoreError) -> [StoreFinding] { try examine(isAlone: false) }

  /// Mends what ``examine()`` finds, as far as that can be done, and looks again.
  ///
  /// Nothing is deleted: what is damaged is set aside, under a name that says when. Processes that
  /// run notice it within a second. A fork of this process waits until it is over.
  ///
  /// - Returns: What each check finds now, with what was done about it.
  /// - Throws: `StoreError` if there is no store, or this user may not look at it.
  public func repair() throws(StoreError) -> [StoreFinding] { try repair(isAlone: false) }

  /// The same; one that is alone in its process leaves not even a reader's mark.
  package func examine(isAlone: Bool) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).examine()
  }

  /// The same; one that is alone in its process leaves no mark where there is nothing to mend.
  package func repair(isAlone: Bool) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).repair()
  }

  private func doctor(_ isAlone: Bool) throws(StoreError) -> StoreDoctor {
    if let refusal { throw refusal }
    return StoreDoctor(
      path: path, clock: engine.clock, program: engine.program,
      lockTimeout: engine.options.lockTimeout, room: engine.options.maximumBreakers,
      forks: engine.examinations, isAlone: isAlone)
  }
}

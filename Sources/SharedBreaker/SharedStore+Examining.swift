internal import BreakerStore

/// Diagnosing and repairing a store.
extension SharedStore {
  /// Checks everything that the store depends on, and changes nothing.
  ///
  /// The checks cover the files and their permissions, the file system, SQLite, the tables and
  /// every row, the log, the counters, and the processes that have the store open. They take a few
  /// seconds for a large store, and never more than about ten. If this process forks meanwhile, the
  /// fork waits for the examination, which then ends soon.
  ///
  /// ```swift
  /// for finding in try store.examine() where !finding.isWell {
  ///   print("\(finding.check): \(finding.found)")
  /// }
  /// ```
  ///
  /// - Returns: What each check has found, in a fixed order.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func examine() throws(StoreError) -> [StoreFinding] { try examine(isAlone: false) }

  /// Repairs what ``examine()`` finds, as far as possible, and examines the store again.
  ///
  /// No file is deleted: a damaged file is moved aside, under a name that holds the time. Processes
  /// that are using the store notice within a second. If this process forks meanwhile, the fork
  /// waits for the repair.
  ///
  /// - Returns: What each check finds now, and what was done about it.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func repair() throws(StoreError) -> [StoreFinding] { try repair(isAlone: false) }

  /// Examines the store; if nothing else in this process uses it, without even a reader's mark.
  package func examine(isAlone: Bool) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).examine()
  }

  /// Repairs the store; `isAlone` says that nothing else in this process uses it.
  ///
  /// Then a repair that finds nothing to do leaves no mark.
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

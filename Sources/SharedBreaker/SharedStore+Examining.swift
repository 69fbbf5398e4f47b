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
  /// - Parameter isAlone: Whether nothing else in this process uses the store meanwhile, as in a
  ///   command that only diagnoses. Then the examination leaves no trace, not even a reader's mark.
  ///   Do not say so otherwise: whatever else opens the store could not write to it.
  /// - Returns: What each check has found, in a fixed order.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func examine(isAlone: Bool = false) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).examine()
  }

  /// Repairs what ``examine(isAlone:)`` finds, as far as possible, and examines the store again.
  ///
  /// No file is deleted: a damaged file is moved aside, under a name that holds the time. Processes
  /// that are using the store notice within a second. If this process forks meanwhile, the fork
  /// waits for the repair.
  ///
  /// - Parameter isAlone: Whether nothing else in this process uses the store meanwhile, as for
  ///   ``examine(isAlone:)``. Then a repair that finds nothing to do leaves no trace.
  /// - Returns: What each check finds now, and what was done about it.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func repair(isAlone: Bool = false) throws(StoreError) -> [StoreFinding] {
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

internal import BreakerCore

/// A process in three columns: its number, its start and its PID namespace; NULL if there is none.
extension Statement {
  /// Reads the process that begins in a column.
  func process(_ column: Int32) -> ProcessIdentity? {
    integerOrNil(column).map {
      ProcessIdentity(
        pid: Int32(truncatingIfNeeded: $0), startTicks: UInt64(bitPattern: integer(column + 1)),
        pidNamespace: UInt64(bitPattern: integer(column + 2)))
    }
  }

  /// Binds a process to three parameters.
  func bind(_ first: Int32, _ process: ProcessIdentity?) {
    bind(first, process.map { Int64($0.pid) })
    bind(first + 1, process.map { Int64(bitPattern: $0.startTicks) })
    bind(first + 2, process.map { Int64(bitPattern: $0.pidNamespace) })
  }
}

internal import BreakerCore

/// A process in five columns: its number, its start, its PID namespace, and its lifeline's byte and
/// file; NULL if there is none.
extension Statement {
  /// Reads the process that begins in a column.
  func process(_ column: Int32) -> ProcessIdentity? {
    integerOrNil(column).map {
      ProcessIdentity(
        pid: Int32(truncatingIfNeeded: $0), startTicks: UInt64(bitPattern: integer(column + 1)),
        pidNamespace: UInt64(bitPattern: integer(column + 2))
      ).holding(lifeline(column + 3))
    }
  }

  private func lifeline(_ column: Int32) -> Lifeline? {
    integerOrNil(column).map {
      Lifeline(byte: $0, file: UInt64(bitPattern: integer(column + 1)))
    }
  }

  /// Binds a process to five parameters.
  func bind(_ first: Int32, _ process: ProcessIdentity?) {
    bind(first, process.map { Int64($0.pid) })
    bind(first + 1, process.map { Int64(bitPattern: $0.startTicks) })
    bind(first + 2, process.map { Int64(bitPattern: $0.pidNamespace) })
    bind(first + 3, process?.lifeline?.byte)
    bind(first + 4, (process?.lifeline?.file).map { Int64(bitPattern: $0) })
  }
}

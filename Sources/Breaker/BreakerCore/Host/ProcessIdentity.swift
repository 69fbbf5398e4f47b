/// One run of one process, distinct from a later process that gets the same number.
package struct ProcessIdentity: Sendable, Hashable {
  /// The process ID, as the process itself sees it.
  package var pid: Int32

  /// When the process started, in clock ticks since the host booted.
  package var startTicks: UInt64

  /// The PID namespace that `pid` belongs to.
  package var pidNamespace: UInt64

  /// The lock that shows other PID namespaces that this process lives; nil if it holds none.
  package var lifeline: Lifeline?

  /// Identifies a process by its number, its start time and its namespace.
  package init(pid: Int32, startTicks: UInt64, pidNamespace: UInt64) {
    self.pid = pid
    self.startTicks = startTicks
    self.pidNamespace = pidNamespace
  }

  /// This process with a lifeline, as the owner of a lease or a claim.
  package func holding(_ lifeline: Lifeline?) -> ProcessIdentity {
    var owner = self
    owner.lifeline = lifeline
    return owner
  }
}

/// A lock on one byte of a file that a process holds for as long as it lives.
///
/// Every process of the host can see whether the byte is locked. No two processes use the same one.
package struct Lifeline: Sendable, Hashable {
  /// The byte, far beyond the end of the file.
  package var byte: Int64

  /// The file's inode number, which no other file gets as long as the lock is held.
  package var file: UInt64

  package init(byte: Int64, file: UInt64) {
    self.byte = byte
    self.file = file
  }
}

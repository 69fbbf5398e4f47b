/// One run of one process, distinct from a later process that gets the same number.
public struct ProcessIdentity: Sendable, Hashable {
  /// The process ID, as the process itself sees it.
  public var pid: Int32

  /// When the process started, in clock ticks since the host booted.
  public var startTicks: UInt64

  /// The PID namespace that `pid` belongs to.
  public var pidNamespace: UInt64

  /// Identifies a process by its number, its start time and its namespace.
  public init(pid: Int32, startTicks: UInt64, pidNamespace: UInt64) {
    self.pid = pid
    self.startTicks = startTicks
    self.pidNamespace = pidNamespace
  }
}

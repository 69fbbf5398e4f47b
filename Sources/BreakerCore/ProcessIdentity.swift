/// One run of one process, told apart from a later process that was given the same number.
public struct ProcessIdentity: Sendable, Hashable {
  /// The process number, as the process itself sees it.
  public var pid: Int32

  /// When the process started, in clock ticks since the host booted.
  public var startTicks: UInt64

  /// The PID namespace in which `pid` means this process.
  public var pidNamespace: UInt64

  /// Names a process by its number, its start and its namespace.
  public init(pid: Int32, startTicks: UInt64, pidNamespace: UInt64) {
    self.pid = pid
    self.startTicks = startTicks
    self.pidNamespace = pidNamespace
  }
}

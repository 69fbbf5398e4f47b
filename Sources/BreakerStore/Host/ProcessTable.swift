package import BreakerCore
internal import CHost
internal import Glibc

/// What the kernel reports about processes.
package enum ProcessTable {
  /// This process, as others can recognize it.
  ///
  /// Whichever PID namespace `/proc` shows, `/proc/self` leads to this process or nowhere.
  package static func current() -> ProcessIdentity {
    let stat = ProcessStat(at: "/proc/self/stat")
    return ProcessIdentity(
      pid: getpid(), startTicks: stat.map { onHostClock($0.startTicks) } ?? 0,
      pidNamespace: pidNamespace())
  }

  /// The number of this process, which changes after a fork.
  package static var ownPid: Int32 { getpid() }

  /// A running process of this PID namespace with this number, or nil if there is none.
  ///
  /// A process that is running but cannot be examined has no start time.
  package static func process(_ pid: Int32) -> ProcessIdentity? {
    switch life(of: pid) {
    case .running(let startTicks):
      ProcessIdentity(pid: pid, startTicks: startTicks, pidNamespace: pidNamespace())
    case .unknown: ProcessIdentity(pid: pid, startTicks: 0, pidNamespace: pidNamespace())
    case .over: nil
    }
  }

  /// Whether a process has ended, as far as its number and its start time prove it.
  ///
  /// If its number now belongs to another process, the process has ended. A process in another PID
  /// namespace cannot be checked, nor can one that `/proc` hides.
  package static func fate(of process: ProcessIdentity) -> ProcessFate {
    let namespace = pidNamespace()
    guard namespace != 0, process.pidNamespace == namespace else { return .unknown }
    switch life(of: process.pid) {
    case .running(let startTicks):
      guard process.startTicks != 0 else { return .unknown }
      if areSame(startTicks, process.startTicks) { return .running }
      return showsThisNamespace() ? .over : .unknown
    case .over: return .over
    case .unknown: return .unknown
    }
  }

  /// Whether a process was stopped by a signal and has not been continued.
  ///
  /// The number is the one by which `/proc` knows the process, and `/proc/locks` too.
  static func isStopped(_ pid: Int32) -> Bool {
    let state = ProcessStat(at: "/proc/\(pid)/stat")?.state
    return state == UInt8(ascii: "T") || state == UInt8(ascii: "t")
  }

  private enum Life {
    /// It is running, and started this many clock ticks after boot.
    case running(UInt64)

    /// It has ended, or only a zombie is left.
    case over
    case unknown
  }

  /// What is known about the process that has a number in this PID namespace.
  private static func life(of pid: Int32) -> Life {
    guard pid > 0 else { return .over }
    // Needs no /proc.
    if kill(pid, 0) != 0, errno == ESRCH { return .over }
    // A process that has ended meanwhile has no entry, which is no proof: /proc may hide entries.
    guard ownNumber() == getpid(), let stat = ProcessStat(at: "/proc/\(pid)/stat") else {
      return .unknown
    }
    guard !stat.isLeaving else { return .unknown }
    guard stat.isZombie else { return .running(onHostClock(stat.startTicks)) }
    return showsThisNamespace() ? .over : .unknown
  }

  /// The kernel reports start times on the clock of the calling process's time namespace.
  private static func onHostClock(_ ticks: UInt64) -> UInt64 {
    let offset = sb_known_boot_offset()
    if offset == 0 { return ticks }
    let offsetTicks = Double(offset) / 1e9 * Double(sysconf(Int32(_SC_CLK_TCK)))
    return UInt64(clamping: Int64(clamping: ticks) - Int64(offsetTicks.rounded(.down)))
  }

  /// Whether two start times are the same, allowing for rounding in different time namespaces.
  ///
  /// No process number is reused within so short a time.
  private static func areSame(_ ticks: UInt64, _ others: UInt64) -> Bool {
    max(ticks, others) - min(ticks, others) <= 1
  }

  private static func pidNamespace() -> UInt64 {
    var status = stat()
    guard unsafe stat("/proc/self/ns/pid", &status) == 0 else { return 0 }
    return UInt64(status.st_ino)
  }

  /// The number by which `/proc` knows this process; nil if it does not know it.
  static func ownNumber() -> Int32? {
    Int32(DirectoryListing.target("/proc/self"))
  }

  /// Whether `/proc` shows the processes of this PID namespace, and not those of a parent.
  ///
  /// In the `/proc` of a parent, this process has several numbers; one of them may be its own.
  private static func showsThisNamespace() -> Bool {
    guard let status = ProcFile.bytes("/proc/self/status") else { return false }
    return NamespaceNumbers.count(in: status) ?? 1 == 1
  }
}

/// What a kind of evidence says about a process.
package enum ProcessFate: Sendable {
  case running

  /// It has ended for certain.
  case over
  case unknown
}

package import BreakerCore
internal import CHost
internal import Glibc

/// What the kernel reports about processes.
package enum ProcessTable {
  /// This process, as others can recognize it.
  package static func current() -> ProcessIdentity {
    let pid = getpid()
    return ProcessIdentity(
      pid: pid, startTicks: startTicks(of: pid) ?? 0, pidNamespace: pidNamespace())
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
    case .hidden: ProcessIdentity(pid: pid, startTicks: 0, pidNamespace: pidNamespace())
    case .over: nil
    }
  }

  /// Whether a process has certainly ended.
  ///
  /// If its number now belongs to another process, the process has ended. A process in another PID
  /// namespace cannot be checked, so this answers false. It also answers false if the process
  /// cannot be examined because `/proc` hides it or because this process has no descriptor left.
  package static func isGone(_ process: ProcessIdentity) -> Bool {
    let namespace = pidNamespace()
    guard namespace != 0, process.pidNamespace == namespace else { return false }
    switch life(of: process.pid) {
    case .running(let startTicks):
      return process.startTicks != 0 && !areSame(startTicks, process.startTicks)
    case .over: return true
    case .hidden: return false
    }
  }

  /// Whether a process was stopped by a signal and has not been continued.
  static func isStopped(_ pid: Int32) -> Bool {
    guard let stat = ProcFile.text("/proc/\(pid)/stat"), let end = stat.lastIndex(of: ")")
    else { return false }
    let state = stat[stat.index(after: end)...].split(separator: " ").first
    return state == "T" || state == "t"
  }

  private enum Life {
    /// It is running, and started this many clock ticks after boot.
    case running(UInt64)

    /// It has ended, or only a zombie is left.
    case over
    case hidden
  }

  /// When a process started, in clock ticks since boot; nil if it has ended or is hidden.
  static func startTicks(of pid: Int32) -> UInt64? {
    if case .running(let startTicks) = life(of: pid) { return startTicks }
    return nil
  }

  private static func life(of pid: Int32) -> Life {
    guard pid > 0 else { return .over }
    // The program's name, in parentheses, may contain spaces and parentheses itself.
    guard let stat = ProcFile.text("/proc/\(pid)/stat"),
      let nameEnd = stat.lastIndex(of: ")")
    else {
      return kill(pid, 0) != 0 && errno == ESRCH ? .over : .hidden
    }
    let fields = stat[stat.index(after: nameEnd)...].split(separator: " ")
    guard fields.count > 19, let startTicks = UInt64(fields[19]) else { return .hidden }
    return fields[0] == "Z" || fields[0] == "X" ? .over : .running(onHostClock(startTicks))
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
}

/// Small files of the kernel, read whole.
enum ProcFile {
  static func text(_ path: String) -> String? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while true {
      let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
        count = max(0, unsafe read(descriptor, buffer.baseAddress, buffer.count))
      }
      if chunk.isEmpty { break }
      bytes += chunk
    }
    return String(decoding: bytes, as: UTF8.self).trimmingNewline()
  }
}

extension String {
  fileprivate func trimmingNewline() -> String { hasSuffix("\n") ? String(dropLast()) : self }
}

package import BreakerCore
internal import CHost
internal import Glibc

/// A running process as others see it.
package struct SeenProcess: Sendable, Hashable {
  /// The program that runs commands for others, who would all have its name.
  fileprivate static let runner = "cbctl"

  package var program: String

  /// The name of the command that the program runs for its user; nil if it runs none.
  package var command: String?

  /// Whether a signal has stopped the process.
  package var isStopped: Bool

  package init(program: String, command: String? = nil, isStopped: Bool = false) {
    self.program = program
    self.command = command
    self.isStopped = isStopped
  }
}

/// The kernel's reports about processes.
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

  /// Whether a process that no longer holds its lock has ended, or is just ending.
  ///
  /// Otherwise it runs another program, by execve(2).
  static func hasEndedOrEnds(_ process: ProcessIdentity) -> Bool {
    guard fate(of: process) == .running else { return true }
    return ProcessStat(at: "/proc/\(process.pid)/stat")?.isEnding ?? true
  }

  /// The name that a running process of this PID namespace has; nil if it cannot be looked up here.
  package static func name(of process: ProcessIdentity) -> String? {
    guard fate(of: process) == .running, ownNumber() == getpid(),
      let name = ProcFile.text("/proc/\(process.pid)/comm")
    else { return nil }
    return OutsideText.cut(name, to: OutsideText.longestName)
  }

  /// A running process of this PID namespace as it is seen; nil if it cannot be looked up here.
  package static func look(at process: ProcessIdentity) -> SeenProcess? {
    guard let program = name(of: process) else { return nil }
    return SeenProcess(
      program: program, command: program == SeenProcess.runner ? command(of: process.pid) : nil,
      isStopped: isStopped(process.pid))
  }

  /// The name of the command that a `cbctl run` runs: what follows after the dashes, without its
  /// folder and its arguments, which may be secret.
  private static func command(of pid: Int32) -> String? {
    let words = ProcFile.bytes("/proc/\(pid)/cmdline")?.split(separator: 0) ?? []
    guard let dashes = words.firstIndex(of: Array("--".utf8)[...]), dashes + 1 < words.count,
      let name = words[dashes + 1].split(separator: UInt8(ascii: "/")).last
    else { return nil }
    return OutsideText.cut(String(decoding: name, as: UTF8.self), to: OutsideText.longestName)
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

  /// Looks for the process that has a number in this PID namespace.
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

/// The verdict of one kind of evidence about a process.
package enum ProcessFate: Sendable {
  case running

  /// It has certainly ended.
  case over
  case unknown
}

/// A store's knowledge of the processes that use it, on this host or on a simulated one.
package struct HostProcesses: Sendable {
  /// The calling process.
  package var current: @Sendable () -> ProcessIdentity

  /// A running process with this number, or nil if there is none.
  package var find: @Sendable (_ pid: Int32) -> ProcessIdentity?

  /// Why the calling process can do nothing more; nil as long as it runs.
  package var ending: @Sendable () -> StoreError?

  package init(
    current: @escaping @Sendable () -> ProcessIdentity,
    find: @escaping @Sendable (Int32) -> ProcessIdentity?,
    ending: @escaping @Sendable () -> StoreError?
  ) {
    self.current = current
    self.find = find
    self.ending = ending
  }

  /// The processes that the kernel knows about.
  package static let system = HostProcesses(
    current: { ProcessTable.current() }, find: { ProcessTable.process($0) }, ending: { nil })
}

/// Judges whether the owners of the leases, claims and slots in a store have ended.
///
/// Only proof counts: a live process must never be mistaken for one that has ended. Without proof
/// the deadline of a lease or a claim decides.
package struct OwnerJudge: Sendable {
  private let evidence: Evidence

  private enum Evidence: Sendable {
    /// The kernel, and the lock file of the store at a path.
    case kernel(store: String)

    /// A store in memory, which knows its processes.
    case memory(isGone: @Sendable (ProcessIdentity) -> Bool)
  }

  /// Judges the owners in the store at a path.
  package init(of store: String) { evidence = .kernel(store: store) }

  /// Judges the owners in a store in memory.
  init(isGone: @escaping @Sendable (ProcessIdentity) -> Bool) {
    evidence = .memory(isGone: isGone)
  }

  /// Whether an owner has certainly ended.
  ///
  /// Its number proves it in its own PID namespace, if `/proc` shows that one. Elsewhere its lifeline
  /// does: the owner held it before it was named anywhere.
  package func isGone(_ owner: ProcessIdentity) -> Bool {
    switch evidence {
    case .kernel(let store):
      switch ProcessTable.fate(of: owner) {
      case .over: true
      case .running: false
      case .unknown: owner.lifeline.map { Lifelines.isReleased($0, of: store) } ?? false
      }
    case .memory(let isGone): isGone(owner)
    }
  }

  /// Whether the program that an owner ran has ended for certain: its process, or the program alone,
  /// by execve(2), which ends its calls as well.
  func hasEnded(_ owner: ProcessIdentity) -> Bool {
    switch evidence {
    case .kernel(let store):
      switch ProcessTable.fate(of: owner) {
      case .over: true
      case .running, .unknown: owner.lifeline.map { Lifelines.isReleased($0, of: store) } ?? false
      }
    case .memory(let isGone): isGone(owner)
    }
  }

  /// Whether an owner that has ended has taken its process with it, and does not run another program now, by
  /// execve(2).
  func hasEndedWhole(_ owner: ProcessIdentity) -> Bool {
    switch evidence {
    case .kernel: ProcessTable.hasEndedOrEnds(owner)
    case .memory: true
    }
  }

  /// Whether no process can see from here whether an owner has ended.
  func isOutOfSight(_ owner: ProcessIdentity) -> Bool {
    switch evidence {
    case .kernel: owner.lifeline == nil && ProcessTable.fate(of: owner) == .unknown
    case .memory: false
    }
  }

  /// Tells which owners hold their lifelines, with one look for all of them.
  func holders() -> (ProcessIdentity) -> Bool {
    guard case .kernel(let store) = evidence else { return { _ in false } }
    let isHeld = Lifelines.heldOnes(of: store)
    return { $0.lifeline.map(isHeld) ?? false }
  }

  /// Whether no process holds a lifeline on a byte of the lock file that the store has now.
  func hasReleased(_ byte: Int64) -> Bool {
    guard case .kernel(let store) = evidence else { return false }
    return Lifelines.isReleased(byte: byte, of: store)
  }
}

/// Small files of the kernel, read whole.
enum ProcFile {
  static func bytes(_ path: String) -> [UInt8]? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    // On the stack, because most of these files are far shorter than a page.
    var chunk = InlineArray<4_096, UInt8>(repeating: 0)
    unsafe withUnsafeMutableBytes(of: &chunk) { chunk in
      while true {
        let count = unsafe read(descriptor, chunk.baseAddress, chunk.count)
        guard count > 0 else { break }
        unsafe bytes += chunk[..<count]
      }
    }
    return bytes
  }

  static func text(_ path: String) -> String? {
    bytes(path).map { bytes in
      String(decoding: bytes.last == newline ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }
  }

  fileprivate static let newline = UInt8(ascii: "\n")
}

/// A process as `/proc/PID/stat` describes it (proc_pid_stat(5)).
///
/// It is read as bytes, because the file has the name that the process gives itself: in a text, the
/// last character of a name can merge with the parenthesis that follows it.
package struct ProcessStat {
  /// A letter, such as `R` for a running process.
  package let state: UInt8

  /// The number of threads that are not gone yet, the leader included.
  let threads: Int

  /// When the process started, in clock ticks since boot.
  let startTicks: UInt64

  /// Whether the leader is on its way out.
  ///
  /// The kernel says so before it takes the memory of the process apart, with the locks that it holds, and long
  /// before it shows a zombie.
  let isEnding: Bool

  package init?(at path: String) {
    guard let bytes = ProcFile.bytes(path) else { return nil }
    self.init(bytes)
  }

  package init?(_ bytes: [UInt8]) {
    // The name, in parentheses, may contain spaces and parentheses itself.
    guard let nameEnd = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
    let fields = bytes[(nameEnd + 1)...].split(separator: UInt8(ascii: " "))
    guard fields.count > 19, let state = fields[0].first,
      let flags = UInt64(String(decoding: fields[6], as: UTF8.self)),
      let threads = Int(String(decoding: fields[17], as: UTF8.self)),
      let startTicks = UInt64(String(decoding: fields[19], as: UTF8.self))
    else { return nil }
    self.state = state
    self.threads = threads
    self.startTicks = startTicks
    isEnding = flags & Self.exiting != 0
  }

  /// PF_EXITING of the kernel's linux/sched.h.
  private static let exiting: UInt64 = 4

  /// Whether only the remains of the process are left.
  ///
  /// The leader of a process is shown as a zombie as soon as it has left by pthread_exit(3), though
  /// other threads may go on.
  package var isZombie: Bool { state == UInt8(ascii: "Z") && threads == 1 }

  /// Whether this is the moment in which an entry disappears, or goes over to another thread: one
  /// that calls execve(2) takes the leader's place.
  var isLeaving: Bool { state == UInt8(ascii: "X") || state == UInt8(ascii: "x") }
}

/// The line `NSpid` of `/proc/PID/status`: the process's number in each PID namespace, from the one
/// that `/proc` shows down to the process's own.
package enum NamespaceNumbers {
  /// How many numbers there are; nil if the kernel does not tell, as one without namespaces does not.
  package static func count(in status: [UInt8]) -> Int? {
    status.split(separator: ProcFile.newline)
      .first { $0.starts(with: "NSpid:".utf8) }
      .map { $0.split { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") }.count - 1 }
  }
}

/// A lock that a process holds on a file, as the kernel lists it (proc_locks(5)).
struct HeldLock {
  var pid: Int32
  var isForWriting: Bool

  /// The first byte of the lock.
  var start: Int64

  /// The locks held on a file by all visible processes; not those that processes are waiting for.
  static func all(on file: FileIdentity) -> [HeldLock] {
    (ProcFile.text("/proc/locks") ?? "").split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      // By inode alone, because some file systems report another device here than `stat` does.
      guard fields.count >= 8, fields[5].split(separator: ":").last == "\(file.inode)",
        let pid = Int32(fields[4]), let start = Int64(fields[6])
      else { return nil }
      return HeldLock(pid: pid, isForWriting: fields[3] == "WRITE", start: start)
    }
  }
}

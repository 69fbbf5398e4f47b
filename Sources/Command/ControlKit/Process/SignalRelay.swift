import ProgramKit

@unsafe @preconcurrency import Glibc

/// Waits for a child, and passes on the signals that this process gets.
///
/// These signals are blocked in the calling thread from the creation of the relay to its `end`, so
/// that none is lost between two steps.
final class SignalRelay {
  /// How a child ended.
  struct Result {
    var end: CommandCourse.End

    /// Whether the child took too long, and had not been told to stop before.
    var didTimeOut = false
    var wasStopped = false
  }

  /// How long a child has between TERM and KILL.
  private static let grace = Duration.seconds(5)

  let hasOwnGroup: Bool
  private let reapsOrphans: Bool
  private var previousMask = sigset_t()
  private var waited = sigset_t()
  private let previousChildAction: sighandler_t?

  /// Begins to block signals; a child with a group of its own is signalled together with the group.
  init(hasOwnGroup: Bool, reapsOrphans: Bool = false) {
    self.hasOwnGroup = hasOwnGroup
    self.reapsOrphans = reapsOrphans
    // A parent that ignores SIGCHLD passes that on, and then the system keeps no exit codes. The
    // action is set only in that case, because setting it discards signals that other threads await.
    previousChildAction = OutsideSignals.isIgnored(SIGCHLD) ? signal(SIGCHLD, SIG_DFL) : nil
    unsafe sigemptyset(&waited)
    unsafe sigaddset(&waited, SIGCHLD)
    // A terminal suspends the whole group that is its job; another group must be signalled.
    let suspending = hasOwnGroup ? [SIGTSTP, SIGCONT] : []
    for number in OutsideSignals.stopping + OutsideSignals.telling + suspending
    where !OutsideSignals.isIgnored(number) {
      unsafe sigaddset(&waited, number)
    }
    unsafe pthread_sigmask(SIG_BLOCK, &waited, &previousMask)
  }

  func end() {
    unsafe pthread_sigmask(SIG_SETMASK, &previousMask, nil)
    if let previousChildAction { signal(SIGCHLD, previousChildAction) }
  }

  /// Waits until the child has ended; sends it TERM after `timeout`, and KILL after the grace period.
  ///
  /// Meanwhile this calls `upkeep`, first after `interval` and then after the time that `upkeep` last
  /// returned.
  func wait(
    for pid: pid_t, timeout: Duration?, interval: Duration? = nil, upkeep: () -> Duration? = { nil }
  ) -> Result {
    let watcher = watcher(of: pid)
    defer { watcher?.join() }
    let target = hasOwnGroup ? -pid : pid
    var result = Result(end: .exited(0))
    var isOverdue = false
    var deadline = timeout.map { ContinuousClock.now + $0 }
    var nextUpkeep = interval.map { ContinuousClock.now + $0 }
    while true {
      var info = unsafe siginfo_t()
      let number = unsafe next(until: [deadline, nextUpkeep].compactMap { $0 }.min(), &info)
      let isStopping = OutsideSignals.stopping.contains(number)
      result.wasStopped = result.wasStopped || isStopping
      if Self.hasEnded(pid) {
        // The signal that ended the child may have been sent to both processes.
        while case let late = takePending(), late > 0 {
          result.wasStopped = result.wasStopped || OutsideSignals.stopping.contains(late)
        }
        // The child keeps its number until it is reaped, so this cannot hit another group.
        if hasOwnGroup, isOverdue { kill(target, SIGKILL) }
        result.end = Self.reap(pid)
        return result
      }
      if number > 0, number != SIGCHLD {
        // A terminal's ^C has already reached a child in the same group. A hangup has not, because
        // it goes only to the first process of the session.
        let isFromKeys = unsafe info.si_code > 0 && (number == SIGINT || number == SIGQUIT)
        if hasOwnGroup || !isFromKeys { Self.send(number, to: target, resuming: isStopping) }
        // The SIGCONT that ends this stop is passed on like any other signal.
        if number == SIGTSTP { raise(SIGSTOP) }
      } else if let passed = deadline, ContinuousClock.now >= passed {
        Self.send(isOverdue ? SIGKILL : SIGTERM, to: target, resuming: true)
        deadline = isOverdue ? nil : ContinuousClock.now + Self.grace
        isOverdue = true
        // How long a command takes to end after a signal tells nothing about the resource.
        result.didTimeOut = result.didTimeOut || !result.wasStopped
      } else if let due = nextUpkeep, ContinuousClock.now >= due {
        nextUpkeep = upkeep().map { ContinuousClock.now + $0 }
      }
    }
  }

  /// Sends a signal; a suspended process must be resumed to handle a request to end.
  private static func send(_ number: Int32, to target: pid_t, resuming: Bool) {
    kill(target, number)
    if resuming { kill(target, SIGCONT) }
  }

  /// Takes a pending signal, which could otherwise end this process before it reports the outcome.
  private func takePending() -> Int32 {
    var now = timespec()
    return unsafe sigtimedwait(&waited, nil, &now)
  }

  private func next(
    until deadline: ContinuousClock.Instant?, _ info: inout siginfo_t
  ) -> Int32 {
    guard let deadline else { return unsafe sigwaitinfo(&waited, &info) }
    var time = timespec(max(.zero, deadline - ContinuousClock.now))
    return unsafe sigtimedwait(&waited, &info, &time)
  }

  private static func hasEnded(_ pid: pid_t) -> Bool {
    var info = unsafe siginfo_t()
    let code = unsafe waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT)
    return unsafe code == 0 && info.si_signo == SIGCHLD
  }

  private static func reap(_ pid: pid_t) -> CommandCourse.End {
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    let signal = status & 0x7F
    return signal == 0 ? .exited((status >> 8) & 0xFF) : .killed(signal: signal)
  }
}

/// Noticing the end of the child.
extension SignalRelay {
  /// Begins to wait for the child's end in a thread that then sends SIGCHLD to this thread.
  ///
  /// The system's SIGCHLD goes to the whole process, so another thread that does not block it would
  /// swallow it. If there is no thread left for this, the system's is enough, because then nothing
  /// else in this process takes it.
  private func watcher(of child: pid_t) -> BackgroundThread? {
    let waiter = pthread_self()
    let reapsOrphans = reapsOrphans
    return BackgroundThread {
      Self.waitForEnd(of: child, reapingOrphans: reapsOrphans)
      pthread_kill(waiter, SIGCHLD)
    }
  }

  /// Waits for the child without reaping it, so that its number stays its own.
  private static func waitForEnd(of child: pid_t, reapingOrphans: Bool) {
    while true {
      var info = unsafe siginfo_t()
      let kind = reapingOrphans ? P_ALL : P_PID
      guard unsafe waitid(kind, id_t(child), &info, WEXITED | WNOWAIT) == 0 else {
        if errno == EINTR { continue }
        return
      }
      let ended = unsafe info._sifields._sigchld.si_pid
      if ended == child { return }
      waitpid(ended, nil, WNOHANG)
    }
  }
}

/// The signals that end a process by default and come from outside, except KILL.
enum OutsideSignals {
  /// Signals that tell a process to end, sent by a user or by a timer or limit.
  static let stopping = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF,
  ]

  /// Signals that tell it something else.
  static let telling =
    [SIGUSR1, SIGUSR2, SIGIO, SIGPWR, SIGSTKFLT]
    + Array(__libc_current_sigrtmin()...__libc_current_sigrtmax())

  static func isIgnored(_ number: Int32) -> Bool {
    var action = sigaction()
    guard unsafe sigaction(number, nil, &action) == 0 else { return false }
    let handler = unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
    return unsafe handler == unsafeBitCast(SIG_IGN, to: Int.self)
  }
}

extension timespec {
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
  }
}

/// The duties of the first process of a PID namespace, such as that of a container.
///
/// The kernel makes that process the parent of every orphan, and an orphan that ends stays a zombie
/// until its parent reaps it. The kernel also drops every signal, even TERM, that the process neither
/// handles nor blocks.
public enum FirstProcess {
  /// Runs a program to its end in a child, where signals act as usual, and returns how it ended.
  ///
  /// Meanwhile this process only passes on signals and reaps. Call this before you start any thread.
  public static func ending(of program: () -> Ending) -> Ending {
    // On a terminal the child stays in the group that gets ^C and ^Z.
    let relay = SignalRelay(hasOwnGroup: !Console.hasTerminal(), reapsOrphans: true)
    let child = fork()
    guard child > 0 else {
      if child == 0, relay.hasOwnGroup { setpgid(0, 0) }
      // If the fork fails, this process runs the program itself, as well as it can.
      relay.end()
      return program()
    }
    // The child does the same, because either of them may come first.
    if relay.hasOwnGroup { setpgid(child, child) }
    switch relay.wait(for: child, timeout: nil).end {
    case .exited(let code): return .code(code)
    case .killed(let signal): return .signal(signal)
    case .notStarted: return .exit(.failed)
    }
  }
}

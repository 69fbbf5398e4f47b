@unsafe @preconcurrency import Glibc

/// The duties of the first process of a PID namespace, such as that of a container.
///
/// The kernel makes that process the parent of every orphan, which stays a zombie until the process
/// reaps it. The kernel also drops each signal, even TERM, that the process neither handles nor
/// blocks.
public enum FirstProcess {
  /// Runs a program to its end, and returns how it ended.
  ///
  /// The first process of a namespace runs the program in a child, where signals act as usual. It
  /// does nothing itself but pass on signals and reap. Call this before you start any thread.
  public static func ending(of program: () -> Ending) -> Ending {
    guard getpid() == 1 else { return program() }
    // On a terminal the child stays in the group that gets ^C and ^Z.
    let relay = SignalRelay(hasOwnGroup: !Console.hasTerminal(), reapsOrphans: true)
    let child = fork()
    guard child > 0 else {
      if child == 0, relay.hasOwnGroup { setpgid(0, 0) }
      // If the fork fails, this process does the work itself, as well as it can.
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

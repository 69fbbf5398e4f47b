import Glibc

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
}

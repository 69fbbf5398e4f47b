import Glibc

/// All that ends a process which knows nothing of it and has done nothing wrong, but KILL.
enum OutsideSignals {
  /// What tells a process to end: somebody, or a clock that has run out.
  static let stopping = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF,
  ]

  /// What tells it something else.
  static let telling =
    [SIGUSR1, SIGUSR2, SIGIO, SIGPWR, SIGSTKFLT]
    + Array(__libc_current_sigrtmin()...__libc_current_sigrtmax())
}

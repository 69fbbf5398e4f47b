import Glibc

/// Ends this process by a signal, as the command ended that it ran.
func die(of number: Int32) -> Never {
  disableCoreDumps()
  signal(number, SIG_DFL)
  var mask = sigset_t()
  unsafe sigemptyset(&mask)
  unsafe sigaddset(&mask, number)
  unsafe pthread_sigmask(SIG_UNBLOCK, &mask, nil)
  raise(number)
  // The first process of a container survives it.
  exit(128 + number)
}

/// Leaves the core dump to the command: this process has nothing to tell.
///
/// A limit of 1 keeps the system also from piping a core to a program (core(5)); 0 would not.
private func disableCoreDumps() {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  limit.rlim_cur = min(1, limit.rlim_max)
  unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
}

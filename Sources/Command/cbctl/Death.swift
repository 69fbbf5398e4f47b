import Glibc

/// Ends this process by the signal that ended the command it ran.
func die(of number: Int32) -> Never {
  disableCoreDumps()
  signal(number, SIG_DFL)
  var mask = sigset_t()
  unsafe sigemptyset(&mask)
  unsafe sigaddset(&mask, number)
  unsafe pthread_sigmask(SIG_UNBLOCK, &mask, nil)
  raise(number)
  // The first process of a container survives such a signal.
  exit(128 + number)
}

/// Disables core dumps of this process; only the command's own dump is of use.
///
/// A limit of 1 also keeps the kernel from piping a core dump to a program; 0 does not (core(5)).
private func disableCoreDumps() {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  limit.rlim_cur = min(1, limit.rlim_max)
  unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
}

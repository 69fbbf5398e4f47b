@unsafe @preconcurrency import Glibc

/// Sleeps between two looks of a command that a user may stop, such as with ^C.
///
/// A signal that asks the process to end is noticed after the sleep or the look in which it came, so that the command
/// can say how things stand. These signals are blocked in the calling thread for as long as this exists.
struct StoppableSleep: ~Copyable {
  private var waited = sigset_t()
  private var previousMask = sigset_t()

  init() {
    unsafe sigemptyset(&waited)
    for number in OutsideSignals.stopping where !OutsideSignals.isIgnored(number) {
      unsafe sigaddset(&waited, number)
    }
    unsafe pthread_sigmask(SIG_BLOCK, &waited, &previousMask)
  }

  deinit {
    var mask = previousMask
    unsafe pthread_sigmask(SIG_SETMASK, &mask, nil)
  }

  /// Sleeps for a time; returns the signal that has ended it, or nil.
  func sleep(_ time: Duration) -> Int32? {
    let (seconds, rest) = time.components
    var span = timespec(tv_sec: Int(seconds), tv_nsec: Int(rest / 1_000_000_000))
    var signals = waited
    let number = unsafe sigtimedwait(&signals, nil, &span)
    return number > 0 ? number : nil
  }
}

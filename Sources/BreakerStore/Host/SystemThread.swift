internal import CHost
internal import Glibc

/// A thread that belongs to the library and not to the program.
package enum SystemThread {
  /// Starts a thread that the caller must join; nil if the system has none left.
  ///
  /// The name, of at most 15 bytes, is for people who look at the threads of a process.
  static func start(
    _ name: StaticString, _ body: @escaping @Sendable () -> Void
  ) -> pthread_t? {
    // The program's own threads handle its signals. A new thread inherits the signal mask.
    var all = sigset_t()
    var usual = sigset_t()
    unsafe sigfillset(&all)
    unsafe pthread_sigmask(SIG_SETMASK, &all, &usual)
    defer { unsafe pthread_sigmask(SIG_SETMASK, &usual, nil) }
    let task = unsafe Unmanaged.passRetained(
      Task {
        unsafe sb_name_thread(name.description)
        body()
      })
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Task>.fromOpaque(context).takeRetainedValue().body()
        return nil
      }, task.toOpaque())
    if code != 0 { unsafe task.release() }
    return code == 0 ? thread : nil
  }

  /// Starts a thread that nobody joins; false if the system has none left.
  package static func startDetached(
    _ name: StaticString, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    guard let thread = start(name, body) else { return false }
    pthread_detach(thread)
    return true
  }

  private final class Task: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
}

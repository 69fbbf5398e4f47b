import Glibc

/// Notifies the thread that created it when a child has ended, by a SIGCHLD to that thread.
///
/// The system's SIGCHLD goes to the whole process, so another thread that does not block it would
/// swallow it. This one cannot get lost.
struct ChildWatcher {
  private struct Task {
    var child: pid_t
    var waiter: pthread_t
    var reapsOrphans: Bool
  }

  private var thread = pthread_t()
  private let hasThread: Bool

  /// Begins to watch a child.
  ///
  /// With `reapsOrphans` it reaps every other child that ends until then, so use that only in a
  /// process that waits for no other child.
  init(_ child: pid_t, reapsOrphans: Bool = false) {
    let task = UnsafeMutablePointer<Task>.allocate(capacity: 1)
    unsafe task.initialize(
      to: Task(child: child, waiter: pthread_self(), reapsOrphans: reapsOrphans))
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        let task = unsafe context.assumingMemoryBound(to: Task.self)
        unsafe ChildWatcher.waitForEnd(task.pointee)
        unsafe pthread_kill(task.pointee.waiter, SIGCHLD)
        unsafe task.deallocate()
        return nil
      }, task)
    hasThread = code == 0
    // Without a thread, the system's SIGCHLD is enough in a process that has no other thread.
    if code != 0 { unsafe task.deallocate() }
  }

  /// Waits for the child without reaping it, so that its number stays its own.
  private static func waitForEnd(_ task: Task) {
    let kind = task.reapsOrphans ? P_ALL : P_PID
    while true {
      var info = unsafe siginfo_t()
      guard unsafe waitid(kind, id_t(task.child), &info, WEXITED | WNOWAIT) == 0 else {
        if errno == EINTR { continue }
        return
      }
      let ended = unsafe info._sifields._sigchld.si_pid
      if ended == task.child { return }
      waitpid(ended, nil, WNOHANG)
    }
  }

  func join() {
    if hasThread { pthread_join(thread, nil) }
  }
}

import Glibc

/// Tells the thread that made it when a child has ended, by a SIGCHLD of that thread's own.
///
/// The SIGCHLD of the system goes to the whole process: another thread that does not hold it back
/// would swallow it. This one cannot get lost.
struct ChildWatcher {
  private struct Task {
    var child: pid_t
    var waiter: pthread_t
  }

  private var thread = pthread_t()
  private let hasThread: Bool

  init(_ child: pid_t) {
    let task = UnsafeMutablePointer<Task>.allocate(capacity: 1)
    unsafe task.initialize(to: Task(child: child, waiter: pthread_self()))
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        let task = unsafe context.assumingMemoryBound(to: Task.self)
        var info = unsafe siginfo_t()
        // The child is left for the other thread to take: its number stays its own until then.
        while unsafe waitid(P_PID, id_t(task.pointee.child), &info, WEXITED | WNOWAIT) != 0 {
          if errno != EINTR { break }
        }
        unsafe pthread_kill(task.pointee.waiter, SIGCHLD)
        unsafe task.deallocate()
        return nil
      }, task)
    hasThread = code == 0
    // Without a thread, the system's own SIGCHLD serves as well in a process that has no other.
    if code != 0 { unsafe task.deallocate() }
  }

  func join() {
    if hasThread { pthread_join(thread, nil) }
  }
}

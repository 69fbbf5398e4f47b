import Glibc

/// Tells the thread that made it when a child has ended, by a SIGCHLD of that thread's own.
///
/// The SIGCHLD of the system goes to the whole process: another thread that does not hold it back
/// would swallow it. This one cannot get lost.
struct ChildWatcher {
  private struct Task {
    var child: pid_t
    var waiter: pthread_t
    var reapsOrphans: Bool
  }

  private var thread = pthread_t()
  private let hasThread: Bool

  /// With `reapsOrphans` it reaps every other child that ends until then, which is only for a process
  /// that waits for no other child.
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
    // Without a thread, the system's own SIGCHLD serves as well in a process that has no other.
    if code != 0 { unsafe task.deallocate() }
  }

  /// The child is left for the other thread to take: its number stays its own until then.
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

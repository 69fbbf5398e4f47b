internal import BreakerStore
internal import CHost

/// Threads for what may block, such as the callbacks of a job after a timeout.
///
/// One thread calls one body after another and ends when none is left. If none has been taken for a
/// moment while some wait, another thread helps. So a body that blocks holds up the next one for a
/// moment at most, and there is never more than one thread beyond those that are blocked.
final class HelperThreads: Sendable {
  static let shared = HelperThreads()

  /// How long bodies wait for threads that are held up before they get another one.
  static let patience = Duration.milliseconds(10)

  private let course: PerProcess<Course>

  private final class Course {
    let waiting = AlarmHeap()
    var threads = 0

    /// How many bodies have been taken by now.
    var taken = 0
    var isWatched = false
  }

  private init() {
    // The timer's lock is taken under this one, and forks take the lock that is younger first.
    _ = TimerThread.shared
    course = PerProcess { Course() }
  }

  /// Calls a body soon, in a thread that it may block.
  func call(_ body: @escaping @Sendable () -> Void) {
    let alarm = Alarm(at: sb_boot_nanoseconds(), body)
    course.withLock { course in
      course.waiting.add(alarm)
      if course.threads == 0 { startThread(of: course) }
      watch(course)
    }
  }

  /// Starts a thread, under the lock; if the system has none left, the watch tries again.
  private func startThread(of course: Course) {
    nonisolated(unsafe) let own = course
    let isStarted = SystemThread.startDetached("breaker-helper") { [self] in
      while let body = unsafe next(of: own) { body() }
    }
    if isStarted { course.threads += 1 }
  }

  /// The body that is next; nil if there is none, or in the child of a body that forked.
  private func next(of own: Course) -> (@Sendable () -> Void)? {
    course.withLock { current in
      guard current === own, let alarm = own.waiting.first else {
        own.threads -= 1
        return nil
      }
      own.waiting.remove(alarm)
      own.taken += 1
      return alarm.take()
    }
  }

  /// Looks again in a moment whether somebody takes those that wait; under the lock.
  private func watch(_ course: Course) {
    guard course.waiting.first != nil, !course.isWatched else { return }
    course.isWatched = true
    let taken = course.taken
    _ = TimerThread.shared.call(after: Self.patience) { [self] in help(ifStillAt: taken) }
  }

  private func help(ifStillAt taken: Int) {
    course.withLock { course in
      course.isWatched = false
      guard course.waiting.first != nil else { return }
      if course.taken == taken { startThread(of: course) }
      watch(course)
    }
  }
}

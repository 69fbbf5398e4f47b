internal import BreakerStore
internal import CHost

/// Threads for functions that may block, such as the callbacks of a job after a timeout.
///
/// One thread calls one body after another and ends when none is left. If bodies wait and none has
/// been taken for ``patience``, another thread is started. So a body that blocks delays the next
/// one by 10 ms at most, and there is never more than one thread beyond those that are blocked.
final class HelperThreads: Sendable {
  static let shared = HelperThreads()

  /// How long bodies wait for blocked threads before another thread is started.
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
    // The timer's lock is taken under this one. A fork takes the youngest lock first, so the timer
    // has to be older.
    _ = TimerThread.shared
    course = PerProcess { Course() }
  }

  /// Calls a body soon, in a thread that the body may block.
  func call(_ body: @escaping @Sendable () -> Void) {
    let alarm = Alarm(at: sb_own_boot_nanoseconds(), body)
    course.withLock { course in
      course.waiting.add(alarm)
      if course.threads == 0 { startThread(of: course) }
      watch(course)
    }
  }

  /// Starts a thread; if the system has none left, the watch tries again.
  ///
  /// The caller holds the lock.
  private func startThread(of course: Course) {
    // The thread uses it under the lock of `course` alone.
    nonisolated(unsafe) let own = course
    let isStarted = SystemThread.startDetached("breaker-helper") { [self] in
      while let body = unsafe next(of: own) { body() }
    }
    if isStarted { course.threads += 1 }
  }

  /// Returns the next body; nil if there is none, or in the child of a body that forked.
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

  /// Schedules a check that waiting bodies are being taken.
  ///
  /// The caller holds the lock.
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

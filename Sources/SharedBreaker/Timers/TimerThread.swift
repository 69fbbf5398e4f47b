internal import BreakerCore
internal import BreakerStore
internal import CHost

/// The one thread of this process that waits for alarms, started when the first one is set.
///
/// The thread calls each body itself, so a body has to return at once; HelperThreads call those
/// that may block. The child of a fork starts its own thread when it sets its first alarm, and the
/// parent's alarms stay the parent's. If the system has no thread left, alarms are late: each alarm
/// that is set tries again to start the thread.
final class TimerThread: Sendable {
  static let shared = TimerThread()

  private let course = PerProcess { Course() }

  private final class Course {
    let alarms = AlarmHeap()
    let waker = ThreadWaker()
    var isRunning = false

    /// The instant of the alarm that the thread sleeps until.
    var sleepsUntil = Int64.max
  }

  private init() {
    // Swift creates metadata when a generic type is first used, under a lock. That is done here,
    // before there are threads that could hold the lock when the process forks.
    cancel(Alarm(at: 0) {})
  }

  /// Calls a body once after a time, in the timer's thread.
  func call(after time: Duration, _ body: @escaping @Sendable () -> Void) -> Alarm {
    let instant = sb_own_boot_nanoseconds().addingSaturating(max(0, time.inNanoseconds))
    let alarm = Alarm(at: instant, body)
    course.withLock { course in
      course.alarms.add(alarm)
      if !course.isRunning { course.isRunning = start(with: course) }
      if instant < course.sleepsUntil { course.waker.wake() }
    }
    return alarm
  }

  /// Cancels an alarm that has not gone off yet.
  func cancel(_ alarm: Alarm) {
    let body = course.withLock { _ in
      alarm.heap?.remove(alarm)
      return alarm.take()
    }
    // The body is freed here, without the lock.
    _ = body
  }
}

/// The thread itself.
extension TimerThread {
  /// The longest that the thread sleeps, and so how late an alarm can be after a sleep of the host.
  ///
  /// The thread sleeps on the monotonic clock, which stops while the host is asleep.
  private static let longestSleep: Int64 = 10_000_000_000

  private func start(with course: Course) -> Bool {
    // The thread uses it under the lock of `course` alone.
    nonisolated(unsafe) let course = course
    return SystemThread.startDetached("breaker-timer") { [self] in
      while let body = unsafe nextAlarm(of: course) { body() }
    }
  }

  /// Waits for the next alarm and returns its body; nil in the child of a body that forked.
  private func nextAlarm(of own: Course) -> (@Sendable () -> Void)? {
    course.withLock { current in
      while current === own {
        let now = sb_own_boot_nanoseconds()
        if let alarm = own.alarms.first, alarm.instant <= now {
          own.alarms.remove(alarm)
          return alarm.take()
        }
        let next = own.alarms.first?.instant
        own.sleepsUntil = next ?? .max
        let sleep = next.map { min($0 - now, Self.longestSleep) }
        _ = own.waker.wait(
          course.lock, until: sleep.map { Patience.monotonicNanoseconds() + $0 })
      }
      return nil
    }
  }
}

internal import BreakerCore
internal import BreakerStore
internal import CHost

/// The one thread of this process that waits for alarms, started when the first of them is set.
///
/// It calls each body itself, so a body has to return at once: HelperThreads take what may block.
/// The child of a fork starts a thread of its own when it sets its first alarm; the parent's alarms
/// stay the parent's. If the system has no thread left, alarms go off late: each one that is set
/// tries again to start it.
final class TimerThread: Sendable {
  static let shared = TimerThread()

  private let course = PerProcess { Course() }

  private final class Course {
    let alarms = AlarmHeap()
    let signal = Signal()
    var isRunning = false

    /// The instant of the alarm that the thread sleeps until.
    var sleepsUntil = Int64.max
  }

  private init() {
    // What Swift makes when a generic type is first used is made here, before there are threads
    // that the child of a fork would wait for.
    cancel(Alarm(at: 0) {})
  }

  /// Calls a body after a time; it is called at most once, and never by this call itself.
  func call(after time: Duration, _ body: @escaping @Sendable () -> Void) -> Alarm {
    let instant = sb_boot_nanoseconds().addingSaturating(max(0, time.inNanoseconds))
    let alarm = Alarm(at: instant, body)
    course.withLock { course in
      course.alarms.add(alarm)
      if !course.isRunning { course.isRunning = start(with: course) }
      if instant < course.sleepsUntil { course.signal.raise() }
    }
    return alarm
  }

  /// Takes an alarm back, if it has not gone off yet.
  func cancel(_ alarm: Alarm) {
    let body = course.withLock { _ in
      alarm.heap?.remove(alarm)
      return alarm.take()
    }
    // Freed here, without the lock.
    _ = body
  }
}

/// What the thread does.
extension TimerThread {
  /// The thread sleeps on the monotonic clock, which stands still while the host is asleep: after
  /// that, an alarm is late by this much at most.
  private static let longestSleep: Int64 = 10_000_000_000

  private func start(with course: Course) -> Bool {
    nonisolated(unsafe) let course = course
    return SystemThread.startDetached("breaker-timer") { [self] in
      while let body = unsafe nextAlarm(of: course) { body() }
    }
  }

  /// The body of the next alarm, as soon as it goes off; nil in the child of a body that forked.
  private func nextAlarm(of own: Course) -> (@Sendable () -> Void)? {
    course.withLock { current in
      while current === own {
        let now = sb_boot_nanoseconds()
        if let alarm = own.alarms.first, alarm.instant <= now {
          own.alarms.remove(alarm)
          return alarm.take()
        }
        let next = own.alarms.first?.instant
        own.sleepsUntil = next ?? .max
        let sleep = next.map { min($0 - now, Self.longestSleep) }
        _ = own.signal.wait(
          course.lock, until: sleep.map { Patience.monotonicNanoseconds() + $0 })
      }
      return nil
    }
  }
}

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

/// State under a lock that belongs to one process: the child of a fork begins with its own.
///
/// The child leaves its parent's state as it is and never frees it, because freeing it could run
/// code of the program in the middle of a fork. Another thread may also have been asleep on a
/// `ThreadWaker` of the state, which cannot be used again then.
///
/// Unchecked because the compiler does not know that the lock guards the state. `Guarded` cannot
/// hold it, because a thread sleeps on the lock while the state changes.
@safe final class PerProcess<State: AnyObject & SendableMetatype>: @unchecked Sendable {
  let lock = Lock()
  private let make: @Sendable () -> State
  private var state: State
  private var forkGuard: ForkGuard?

  init(_ make: @escaping @Sendable () -> State) {
    self.make = make
    state = make()
    forkGuard = ForkGuard(
      of: self, before: { [unowned self] in lock.lock() },
      after: { [unowned self] isChild in
        if isChild { begin() }
        lock.unlock()
      })
  }

  deinit { forkGuard?.end() }

  func withLock<Result>(_ body: (State) -> Result) -> Result {
    lock.withLock { body(state) }
  }

  private func begin() {
    unsafe _ = Unmanaged.passRetained(state)
    state = make()
  }
}

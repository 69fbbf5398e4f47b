import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport

/// Jobs, whose timeouts this process keeps.
extension Worker {
  /// `job MS ATTEMPTS`: runs a job whose work never reports, and returns how it ended.
  func runJob(_ words: [String]) -> String {
    let end = JobEnd()
    job(words, end).start()
    return end.wait()
  }

  /// `job-begin MS ATTEMPTS`: starts such a job without waiting; `job-start` starts it once more.
  func beginJob(_ words: [String]) -> String {
    begun = job(words, JobEnd())
    return startJob()
  }

  func startJob() -> String { begun?.start() == true ? "started" : "not started" }

  /// `job-state`: returns whether the job that was begun is under way.
  func jobState() -> String { begun?.isUnderWay == true ? "under way" : "idle" }

  /// `fork-timing THREADS FORKS`: forks while threads set alarms, let them go off and cancel them;
  /// each child runs a job until it times out.
  func forkWhileTiming(_ words: [String]) -> String {
    let timing = Timing(breaker)
    let threads = Threads()
    for _ in 0..<(Int(words[0]) ?? 0) { threads.start { timing.run() } }
    // By then Swift has created every type that the threads need. A child could wait forever for
    // one that another thread was creating at the fork.
    while timing.timeouts.load(ordering: .relaxed) < 100 { sched_yield() }
    var children: [Int32] = []
    for _ in 0..<(Int(words[1]) ?? 0) {
      let child = ts_fork()
      if child == 0 {
        ts_limit(60)
        _exit(runJob(["1", "3"]) == "failed after 3 timeouts" ? 0 : 1)
      }
      children.append(Self.wait(for: child))
    }
    timing.isOver.store(true, ordering: .relaxed)
    threads.join()
    return "children \(children.count { $0 == 0 })"
  }

  private func job(_ words: [String], _ end: JobEnd) -> BreakerJob {
    let retry = RetryPolicy.fixed(attempts: Int(words[1]) ?? 1, delay: .microseconds(100))
    let timeout = Duration.milliseconds(Int(words[0]) ?? 1)
    let job = BreakerJob(breaker, timeout: timeout, retry: retry) { _ in }
    job.timedOut = { _ in end.note { $0.timeouts += 1 } }
    job.failed = { _, _ in end.note { $0.word = "failed" } }
    job.tripped = { _, _ in end.note { $0.word = "tripped" } }
    return job
  }
}

/// How a job ends.
final class JobEnd: Sendable {
  struct Course {
    var timeouts = 0
    var word: String?
  }

  private let course = Guarded(Course())

  func note(_ body: (inout Course) -> Void) { course.withLock { body(&$0) } }

  func wait() -> String {
    while true {
      let (course, word) = course.withLock { ($0, $0.word) }
      if let word { return "\(word) after \(course.timeouts) timeouts" }
      usleep(200)
    }
  }
}

/// Threads that set alarms as fast as they can.
private final class Timing: Sendable {
  let breaker: Breaker
  let isOver = Atomic(false)
  let timeouts = Atomic(0)

  init(_ breaker: Breaker) { self.breaker = breaker }

  func run() {
    while !isOver.load(ordering: .relaxed) {
      let late = BreakerJob(breaker, timeout: .microseconds(50)) { _ in }
      late.timedOut = { [self] _ in timeouts.add(1, ordering: .relaxed) }
      late.start()
      for _ in 0..<20 { BreakerJob(breaker, timeout: .seconds(60)) { $0.success() }.start() }
    }
  }
}

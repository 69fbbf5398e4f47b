import Glibc
import SharedBreaker
import SharedBreakerTesting
import Synchronization
import TestShim
import TestSupport
import Testing

/// Each in a process of its own, in which code blocks every thread that Swift has.
@Suite(.timeLimit(.minutes(10))) struct `While code blocks all of Swift's threads` {
  @Test func `a job still times out, tries again, and calls back`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(120)
      let timeouts = Journal<Int>()
      let retry = RetryPolicy.fixed(attempts: 3, delay: .milliseconds(1))
      let job = BreakerJob(try Self.breaker(), timeout: .milliseconds(1), retry: retry) { _ in }
      job.timedOut = { _ in timeouts.note(1) }
      job.failed = { _, error in exit(timeouts.count == 3 && error is CallTimedOut ? 0 : 1) }
      Blocking.blockAllButThisThread()
      job.start()
      Blocking.block()
    }
  }

  @Test func `a caller on an actor with a thread of its own is freed at the deadline`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(120)
      let caller = Caller(try Self.breaker())
      for _ in 0..<Blocking.cores { Task { await caller.call { Blocking.block() } } }
      await caller.untilAllTimedOut(Blocking.cores)
      // Nobody gets here, as no thread of Swift's is free: the actor ends the process.
    }
  }

  @Test func `a caller on an actor with a thread of its own waits between attempts`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(120)
      let caller = Caller(try Self.breaker())
      Task { await caller.tryAgainWhileAllIsBlocked() }
      await caller.untilAllTimedOut(.max)
    }
  }

  private static func breaker() throws -> Breaker {
    try TestHost().store(timer: .system).breaker("api", policy: BreakerPolicy(maxFailures: 1_000))
  }
}

/// Blocks threads for good; the process ends all the same.
private enum Blocking {
  static let cores = sysconf(Int32(_SC_NPROCESSORS_ONLN))

  static func block() { while true { pause() } }

  /// A thread that is free finds only what blocks it.
  static func blockAllButThisThread() {
    let blocked = Journal<Int>()
    for number in 0..<(8 * cores) {
      Task.detached {
        blocked.note(number)
        block()
      }
    }
    while blocked.count < cores - 1 { sched_yield() }
  }
}

/// An actor with a thread of its own, which ends the process when it has seen what it waits for.
private actor Caller {
  private let executor = OwnThread()
  private let breaker: Breaker
  private var timeouts = 0
  private var expected = Int.max

  init(_ breaker: Breaker) { self.breaker = breaker }

  nonisolated var unownedExecutor: UnownedSerialExecutor {
    unsafe executor.asUnownedSerialExecutor()
  }

  func call(_ work: @escaping @Sendable () -> Void) async {
    do {
      try await breaker.run(timeout: .milliseconds(20)) { work() }
    } catch {
      guard error is CallTimedOut else { exit(1) }
      timeouts += 1
      if timeouts >= expected { exit(0) }
    }
  }

  func untilAllTimedOut(_ count: Int) {
    expected = count
    if timeouts >= expected { exit(0) }
  }

  func tryAgainWhileAllIsBlocked() async {
    Blocking.blockAllButThisThread()
    var tries = 0
    do {
      try await breaker.run(retry: .fixed(attempts: 3, delay: .milliseconds(1))) {
        tries += 1
        await Task.yield()
        throw Refused()
      }
    } catch {
      exit(tries == 3 && error is Refused ? 0 : 1)
    }
  }
}

private final class OwnThread: SerialExecutor {
  private let jobs = Guarded<[UnownedJob]>([])

  init() {
    let threads = Threads()
    threads.start { [unowned self] in
      while true {
        let next = jobs.withLock { jobs in jobs.isEmpty ? nil : jobs.removeFirst() }
        guard let next else {
          usleep(200)
          continue
        }
        unsafe next.runSynchronously(on: asUnownedSerialExecutor())
      }
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
  }
}

import BreakerStore
import Glibc
import SharedBreaker
import SharedBreakerTesting
import Synchronization
import TestShim
import TestSupport
import Testing

/// The thread that keeps the time of all timeouts and waits.
@Suite(.timeLimit(.minutes(60))) struct TimerThreadTests {
  private let timer = StoreTimer.system

  @Test func `each of ten thousand timers fires once unless it is taken back first`() async {
    let count = 10_000
    let calls = (0..<count).map { _ in Counter() }
    let takenBack = (0..<count).map { $0.isMultiple(of: 3) }
    Threads.run(4) { thread in
      for number in stride(from: thread, to: count, by: 4) {
        let takeBack = timer.call(after: .microseconds(number % 2_000)) { calls[number].add() }
        guard takenBack[number] else { continue }
        if number.isMultiple(of: 2) { sched_yield() }
        takeBack()
        takeBack()
      }
    }
    await until { (0..<count).allSatisfy { takenBack[$0] || calls[$0].value > 0 } }
    #expect(calls.allSatisfy { $0.value <= 1 })
  }

  @Test func `a timer that is taken back in time does not fire`() async {
    while true {
      let called = Notes<Int>()
      let start = ContinuousClock.now
      let takeBack = timer.call(after: .milliseconds(5)) { called.note(1) }
      takeBack()
      // On a busy machine it may be too late, so this test tries again.
      guard ContinuousClock.now - start < .milliseconds(5) else { continue }
      _ = timer.call(after: .milliseconds(6)) { called.note(2) }
      await until { called.count > 0 }
      return #expect(called.entries == [2])
    }
  }

  @Test func `the timer thread is woken for a timer that is due before all others`() async {
    let called = Notes<Int>()
    let takeBack = timer.call(after: .seconds(3_600)) { called.note(1) }
    _ = timer.call(after: .milliseconds(1)) { called.note(2) }
    await until { called.count > 0 }
    takeBack()
    #expect(called.entries == [2])
  }

  @Test func `a timer frees its closure once it has fired or was taken back`() async {
    final class Leaf: Sendable {}
    weak var kept: Leaf?
    for isTakenBack in [true, false] {
      let called = Notes<Int>()
      do {
        let leaf = Leaf()
        kept = leaf
        let time = isTakenBack ? Duration.seconds(3_600) : .milliseconds(1)
        let takeBack = timer.call(after: time) { called.note(leaf === leaf ? 1 : 0) }
        if isTakenBack { takeBack() }
      }
      if !isTakenBack { await until { called.count == 1 } }
      await until { kept == nil }
      #expect(kept == nil)
    }
  }

  @Test func `only the timer thread remains, and only in a process that set a timer`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(600)
      let store = SharedStore(path: "/proc/no-such-folder/breakers.db")
      let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1_000))
      for _ in 0..<10 {
        try? await breaker.run(retry: .fixed(attempts: 2, delay: .microseconds(1))) {}
      }
      guard ProcessThreads.count(named: "breaker") == 0 else { exit(1) }
      let ended = Notes<Int>()
      let jobs = (0..<100).map { _ in BreakerJob(breaker, timeout: .milliseconds(1)) { _ in } }
      for job in jobs {
        job.failed = { _, _ in ended.note(1) }
        await job.start()
      }
      await until { ended.count == jobs.count }
      await until { ProcessThreads.count(named: "breaker") == 1 }
      exit(ProcessThreads.count(named: "breaker-timer") == 1 ? 0 : 2)
    }
  }
}

private final class Counter: Sendable {
  private let count = Atomic(0)

  var value: Int { count.load(ordering: .relaxed) }

  func add() { count.add(1, ordering: .relaxed) }
}

import BreakerStore
import Glibc
import SharedBreaker
import SharedBreakerTesting
import Synchronization
import TestShim
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The thread that keeps the time` {
  private let timer = StoreTimer.system

  @Test func `calls each of ten thousand once, unless it is taken back first`() async {
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

  @Test func `does not call what was taken back in time`() async {
    let called = Journal<Int>()
    let takeBack = timer.call(after: .milliseconds(5)) { called.note(1) }
    takeBack()
    _ = timer.call(after: .milliseconds(6)) { called.note(2) }
    await until { called.count > 0 }
    #expect(called.entries == [2])
  }

  @Test func `is woken for what is due before all others`() async {
    let called = Journal<Int>()
    let takeBack = timer.call(after: .seconds(3_600)) { called.note(1) }
    _ = timer.call(after: .milliseconds(1)) { called.note(2) }
    await until { called.count > 0 }
    takeBack()
    #expect(called.entries == [2])
  }

  @Test func `frees what it was to call as soon as that was called or taken back`() async {
    final class Leaf: Sendable {}
    weak var kept: Leaf?
    for isTakenBack in [true, false] {
      let called = Journal<Int>()
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

  @Test func `is there only in a process that sets a time, and alone once all is over`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(120)
      let store = SharedStore(path: "/proc/no-such-folder/breakers.db")
      let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1_000))
      for _ in 0..<10 { try? breaker.run(retry: .fixed(attempts: 2, delay: .microseconds(1))) {} }
      guard ProcessThreads.count(named: "breaker") == 0 else { exit(1) }
      let ended = Journal<Int>()
      let jobs = (0..<100).map { _ in BreakerJob(breaker, timeout: .milliseconds(1)) { _ in } }
      for job in jobs {
        job.failed = { _, _ in ended.note(1) }
        job.start()
      }
      await until { ended.count == jobs.count }
      await until { ProcessThreads.count(named: "breaker") == 1 }
      exit(ProcessThreads.count(named: "breaker-timer") == 1 ? 0 : 2)
    }
  }
}

@Suite(.timeLimit(.minutes(10))) struct `A callback that blocks` {
  @Test func `holds up neither other callbacks nor timeouts`() async throws {
    let breaker = try TestHost().store(timer: .system).breaker(
      "api", policy: BreakerPolicy(maxFailures: 1_000))
    let gate = HeldThread()
    let blocked = Journal<Int>()
    let ended = Journal<Int>()
    let blocking = (0..<20).map { number in
      let job = BreakerJob(breaker, timeout: .milliseconds(1)) { _ in }
      job.timedOut = { _ in
        blocked.note(number)
        gate.hold()
      }
      job.failed = { _, _ in ended.note(number) }
      return job
    }
    for job in blocking { job.start() }
    await until { blocked.count == blocking.count }
    let retry = RetryPolicy.fixed(attempts: 3, delay: .milliseconds(1))
    let other = BreakerJob(breaker, timeout: .milliseconds(1), retry: retry) { _ in }
    let failures = Journal<Int>()
    other.failed = { _, _ in failures.note(1) }
    other.start()
    await until { failures.count == 1 }
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) {
        try await Task.sleep(for: .seconds(3_600))
      }
    }
    #expect(ended.count == 0)
    gate.letGo()
    await until { ended.count == blocking.count }
  }

  @Test func `may be the handler of a cancellation, whose caller is free all the same`()
    async throws
  {
    let breaker = try TestHost().store(timer: .system).breaker("api")
    let gate = HeldThread()
    let work = HungWork()
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) {
        await withTaskCancellationHandler {
          await work.hang()
        } onCancel: {
          gate.hold()
        }
      }
    }
    await until { gate.isHeld }
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) { await work.hang() }
    }
    gate.letGo()
    work.release()
  }
}

/// Holds the threads that come to it until it lets them go.
private final class HeldThread: Sendable {
  private let held = Guarded(0)
  private let isOver = Atomic(false)

  var isHeld: Bool { held.withLock { $0 > 0 } }

  func hold() {
    held.withLock { $0 += 1 }
    while !isOver.load(ordering: .acquiring) { usleep(500) }
  }

  func letGo() { isOver.store(true, ordering: .releasing) }
}

private final class Counter: Sendable {
  private let count = Atomic(0)

  var value: Int { count.load(ordering: .relaxed) }

  func add() { count.add(1, ordering: .relaxed) }
}

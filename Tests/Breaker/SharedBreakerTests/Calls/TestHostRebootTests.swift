import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A test host that is rebooted.
@Suite(.timeLimit(.minutes(60))) struct TestHostRebootTests {
  private let host = TestHost()

  @Test(arguments: [0, 20, 60, 3_600])
  func `a reboot leaves a breaker open for what is left of its open time`(downtime: Int) throws {
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    host.clock.advance(by: .seconds(500))
    try breaker.trip(for: .seconds(60))
    host.reboot(after: .seconds(downtime))
    let again = try host.store().breaker("api")
    let left = max(0, 60 - downtime)
    #expect(again.state == .open)
    #expect(again.snapshot().openEndsIn == .seconds(left))
    if left > 0 {
      host.clock.advance(by: .seconds(left) - .nanoseconds(1))
      #expect(throws: BreakerError.self) { try again.run {} }
      host.clock.advance(by: .nanoseconds(1))
    }
    try again.run {}
    #expect(again.state == .closed)
  }

  @Test func `a reboot frees the slot of a probe`() throws {
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.trip(for: .seconds(1))
    host.clock.advance(by: .seconds(1))
    let permit = try host.process().store().breaker("api").acquire()
    host.reboot()
    let again = try host.store().breaker("api")
    #expect(again.snapshot().leases.isEmpty)
    try again.run {}
    #expect(again.state == .closed)
    let verdict = permit.fail()
    #expect(verdict == .refused)
    #expect(again.state == .closed)
  }

  @Test func `a reboot ends all processes, and new ones can start`() throws {
    let worker = host.process()
    let store = host.store()
    let breaker = try store.breaker("api")
    try breaker.run {}
    host.reboot(after: .seconds(1))
    #expect(!worker.isRunning)
    #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(throws: StoreError.self) { try worker.store().connect() }
    #expect(throws: StoreError.self) { try store.connect() }
    let next = host.process()
    #expect(next.isRunning && next.pid != worker.pid)
    #expect(try next.store().snapshot(of: "api")?.totals.successes == 1)
  }

  @Test func `a reboot restarts windows and quorums and keeps the totals`() throws {
    let policy = BreakerPolicy(
      failures: 3, within: .seconds(3_600), reporters: 2, openFor: .seconds(1))
    let first = try host.process().store().breaker("api", policy: policy)
    for _ in 0..<2 { #expect(throws: Refused.self) { try first.run { throw Refused() } } }
    host.reboot(after: .seconds(1))
    let second = try host.process().store().breaker("api")
    for _ in 0..<3 { #expect(throws: Refused.self) { try second.run { throw Refused() } } }
    #expect(second.state == .closed, "it has one reporter in this boot")
    #expect(second.snapshot().totals.failures == 5)
  }

  @Test func `the time in a state is counted across reboots`() throws {
    try host.store().breaker("api").trip(for: .seconds(3_600))
    host.clock.advance(by: .seconds(10))
    for _ in 0..<3 { host.reboot(after: .seconds(20)) }
    host.clock.advance(by: .seconds(5))
    let snapshot = try #require(try host.store().snapshot(of: "api"))
    #expect(snapshot.timeInState == .seconds(75))
    #expect(snapshot.retryAfter == .seconds(3_525))
  }

  @Test func `a reboot wakes the sleepers whose time came while the host was down`() async throws {
    let clock = host.clock
    let sleeper = Task { try await clock.sleep(for: .seconds(10)) }
    try await clock.untilSomebodySleeps(for: .seconds(10))
    host.reboot(after: .seconds(10))
    try await sleeper.value
    #expect(clock.now.offset == .seconds(10))
  }
}

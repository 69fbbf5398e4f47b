import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// Calls that must not wait for the store.
@Suite struct AtOnceTests {
  private let stage: Stage
  private let storage: UntouchedStorage
  private let other: SharedStore
  private let store: SharedStore

  init() throws {
    stage = try Stage()
    let memory = MemoryStorage(clock: stage.clock.clock, program: "test", isGone: { _ in false })
    storage = UntouchedStorage(memory)
    let options = StoreOptions(clock: stage.clock.clock)
    store = SharedStore(storage: storage, options: options)
    other = SharedStore(storage: memory, options: options)
  }

  private func breaker(_ words: String = "max-failures=1") throws -> Breaker {
    let breaker = try store.breaker("api", policy: BreakerPolicy(words: words))
    try breaker.run {}
    return breaker
  }

  /// Asks without waiting, while the storage fails the test if it is touched.
  private func askAtOnce(_ breaker: Breaker) throws -> Decision<Ticket>? {
    try storage.untouched { try breaker.enter(mayWait: false) }
  }

  /// Reports without waiting, while the storage fails the test if it is touched.
  private func reportAtOnce(
    _ outcome: CallOutcome, of permit: Ticket, to breaker: Breaker
  ) -> ReportVerdict? {
    storage.untouched { breaker.leave(permit, outcome, elapsed: nil, mayWait: false) }
  }

  private func permit(of decision: Decision<Ticket>?) throws -> Ticket {
    guard case .permitted(let permit) = decision else {
      throw SupportError("there is no permit")
    }
    return permit
  }

  @Test func `a healthy call begins and ends without touching the store`() throws {
    let breaker = try breaker()
    let permit = try permit(of: askAtOnce(breaker))
    #expect(reportAtOnce(.success, of: permit, to: breaker) == .counted)
  }

  @Test(
    arguments: [(Int64.max, 1), (.min, 0), (0, 0)] as [(seconds: Int64, slow: Int64)])
  func `a call may say that it took any time at all`(seconds: Int64, slow: Int64) throws {
    let breaker = try breaker("slow-rate=50% slow-after=1s window=1m")
    let permit = try breaker.acquire()
    permit.succeed(elapsed: .seconds(seconds))
    let totals = breaker.snapshot().totals
    #expect(totals.successes == 2 && totals.slow == slow)
  }

  @Test(arguments: [CallOutcome.success, .ignored])
  func `an outcome is counted without touching the store though others created the breaker`(
    outcome: CallOutcome
  ) throws {
    try other.breaker("api").run {}
    let breaker = try store.breaker("api")
    try breaker.run {}
    let permit = try permit(of: askAtOnce(breaker))
    let verdict = storage.untouched {
      breaker.leave(permit, outcome, elapsed: .seconds(9), mayWait: false)
    }
    #expect(verdict == .counted)
    let totals = breaker.snapshot().totals
    #expect([totals.successes, totals.ignored] == (outcome == .ignored ? [1, 1] : [2, 0]))
  }

  @Test(arguments: [9: ReportVerdict.counted, 10: nil])
  func `a measured success is counted without waiting unless it was slow`(
    seconds: Int, expected: ReportVerdict?
  ) throws {
    let policy = try BreakerPolicy(words: "slow-rate=50% slow-after=10s last=10 min-calls=2")
    try stage.sharedStore().breaker("api", policy: policy).run {}
    let breaker = try stage.sharedStore().breaker("api")
    try breaker.run {}
    let permit = try permit(of: breaker.enter(mayWait: false))
    let elapsed = Duration.seconds(seconds)
    #expect(breaker.leave(permit, .success, elapsed: elapsed, mayWait: false) == expected)
  }

  @Test func `a failure is not recorded without waiting, and can be recorded later`() throws {
    let breaker = try breaker()
    let permit = try permit(of: askAtOnce(breaker))
    #expect(reportAtOnce(.failure(error: "x"), of: permit, to: breaker) == nil)
    #expect(breaker.state == .closed)
    let verdict = breaker.leave(permit, .failure(error: "x"), elapsed: nil, mayWait: true)
    #expect(verdict == .counted)
    #expect(breaker.state == .open)
  }

  @Test func `an open breaker rejects without touching the store`() throws {
    let breaker = try breaker("open-for=30s jitter=0%")
    try breaker.trip()
    guard case .rejected(let rejection) = try askAtOnce(breaker) else {
      Issue.record("the call was not rejected")
      return
    }
    #expect(rejection.retryAfter == .seconds(30))
  }

  @Test func `a call beside a probe is rejected without touching the store`() throws {
    let breaker = try breaker("open-for=30s jitter=0% probe-timeout=1m")
    try breaker.trip()
    stage.clock.advance(by: .seconds(31))
    #expect(try askAtOnce(breaker) == nil, "a probe has to be written")
    let permit = try permit(of: breaker.enter(mayWait: true))
    #expect(permit.kind == .probe)
    guard case .rejected(let rejection) = try askAtOnce(breaker) else {
      Issue.record("the call was not rejected")
      return
    }
    #expect(rejection.state == .halfOpen)
    #expect(reportAtOnce(.success, of: permit, to: breaker) == nil)
    #expect(breaker.leave(permit, .success, elapsed: nil, mayWait: true) == .counted)
    #expect(breaker.state == .closed)
  }

  @Test func `a call that must not wait is not answered once another process has written`() throws {
    let breaker = try breaker()
    let permit = try permit(of: askAtOnce(breaker))
    try other.breaker("api").trip()
    #expect(try askAtOnce(breaker) == nil)
    #expect(reportAtOnce(.success, of: permit, to: breaker) == nil)
    #expect(breaker.leave(permit, .success, elapsed: nil, mayWait: true) == .outdated)
  }

  @Test func `a call that must not wait is not answered while the work of a second is due`() throws
  {
    let breaker = try breaker()
    stage.clock.advance(by: .seconds(2))
    #expect(try askAtOnce(breaker) == nil)
    try breaker.run {}
    #expect(try askAtOnce(breaker) != nil)
  }

  @Test func `a process that goes on alone answers without waiting between its attempts`() throws {
    let breaker = try breaker()
    storage.fails.withLock { $0 = true }
    // The failure finds out that the store cannot be used.
    let permit = try permit(of: askAtOnce(breaker))
    _ = breaker.leave(permit, .success, elapsed: .seconds(1), mayWait: true)
    _ = breaker.leave(permit, .failure(error: nil), elapsed: nil, mayWait: true)
    #expect(store.health != .connected)
    guard case .rejected = try askAtOnce(breaker) else {
      Issue.record("the breaker of this process did not count the failure")
      return
    }
    stage.clock.advance(by: .seconds(2))
    #expect(try askAtOnce(breaker) == nil, "the store has to be tried again")
  }
}

/// A storage in memory that can fail, and that notices when it is read or written.
private final class UntouchedStorage: ForwardingStorage {
  let memory: MemoryStorage
  let fails = Guarded(false)
  private let touches = Guarded(0)

  init(_ memory: MemoryStorage) { self.memory = memory }

  func untouched<Answer>(_ body: () throws -> Answer) rethrows -> Answer {
    let before = touches.withLock { $0 }
    defer { #expect(touches.withLock { $0 } == before, "the store was touched") }
    return try body()
  }

  private func touch() throws(StoreError) {
    touches.withLock { $0 += 1 }
    if fails.withLock({ $0 }) { throw StoreError(.inputOutput, "the storage fails") }
  }

  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    try touch()
    return try memory.changes(since: revision)
  }

  func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try touch()
    return try memory.read(isLong: isLong, body)
  }

  func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    try touch()
    return try memory.write(wait: wait, body)
  }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try touch()
    return try memory.transact(name, orCreate: orCreate, wait: wait, body)
  }
}

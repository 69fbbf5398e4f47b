import BreakerStore
import SharedBreaker
import TestSupport
import Testing

@Suite struct ObserverTests {
  private final class Log: Sendable {
    let events = Guarded<[String]>([])
    let store = Guarded<SharedStore?>(nil)

    func add(_ text: String) { events.withLock { $0.append(text) } }
  }

  private func observed(_ stage: Stage, _ log: Log) -> SharedStore {
    let options = StoreOptions(clock: stage.clock.clock) { event in
      guard case .transition(let name, let from, let to, _) = event else { return }
      log.add("\(name) \(from.wireName)>\(to.wireName)")
      // An observer may do what any caller may: nothing is locked while it is notified.
      guard to == .open, !name.hasPrefix("follower"), let store = log.store.withLock({ $0 }) else {
        return
      }
      do {
        let follower = try store.breaker("follower of \(name)")
        try follower.trip()
        log.add("\(name) is \(try store.snapshot(of: name)?.state.wireName ?? "gone")")
        try follower.reset()
      } catch {
        Issue.record(error)
      }
    }
    let store = SharedStore(path: stage.store, options: options)
    log.store.withLock { $0 = store }
    return store
  }

  @Test(.timeLimit(.minutes(60)))
  func `an observer is notified in order and may use the store meanwhile`() throws {
    let stage = try Stage()
    let log = Log()
    let breaker = try observed(stage, log).breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.acquire().fail()
    stage.clock.advance(by: .seconds(60))
    try breaker.run {}
    #expect(
      log.events.withLock { $0 } == [
        "api closed>open", "follower of api closed>open", "api is open", "api open>half_open",
        "api half_open>closed",
      ])
    log.store.withLock { $0 = nil }
  }

  @Test(.timeLimit(.minutes(60)))
  func `an observer is notified of every call that the breaker rejects`() throws {
    let stage = try Stage()
    let told = Guarded<[String]>([])
    let options = StoreOptions(clock: stage.clock.clock) { event in
      guard case .rejected(let name, let rejection) = event else { return }
      told.withLock { $0.append("\(name) \(rejection.state.wireName)") }
    }
    let breaker = try SharedStore(path: stage.store, options: options).breaker("api")
    try breaker.run {}
    #expect(told.withLock { $0 } == [])

    try breaker.trip()
    #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(throws: BreakerError.self) { try breaker.acquireToken() }
    if case .permitted = try breaker.decide() { Issue.record("permitted") }
    #expect(told.withLock { $0 } == Array(repeating: "api open", count: 3))

    stage.clock.advance(by: .seconds(60))
    let probe = try breaker.acquire()
    if case .permitted = try breaker.decide() { Issue.record("permitted") }
    probe.succeed()
    try breaker.force(.forcedOpen)
    #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(told.withLock { $0.suffix(2) } == ["api half_open", "api closed"])
    #expect(told.withLock { $0.count } == 5)
  }

  @Test(.timeLimit(.minutes(60)))
  func `several threads may notify an observer at the same time, each in its own order`() throws {
    let stage = try Stage()
    let log = Log()
    let store = observed(stage, log)
    let each = rounds(100)
    Threads.run(4) { thread in
      do {
        let breaker = try store.breaker("api \(thread)")
        for _ in 0..<each {
          try breaker.trip()
          try breaker.reset()
        }
      } catch {
        Issue.record(error)
      }
    }
    for thread in 0..<4 {
      let its = log.events.withLock { $0 }.filter { $0.hasPrefix("api \(thread)") }
      let expected = ["closed>open", "is open"].map { "api \(thread) \($0)" }
      #expect(its == (0..<each).flatMap { _ in expected })
    }
    log.store.withLock { $0 = nil }
  }

  @Test func `an observer is notified of no transition when an open breaker is tripped`() throws {
    let stage = try Stage()
    let log = Log()
    let store = observed(stage, log)
    let breaker = try store.breaker("follower", policy: BreakerPolicy(openFor: .seconds(30)))
    try breaker.trip()
    stage.clock.advance(by: .seconds(20))
    try breaker.trip(reason: "still down")
    #expect(log.events.withLock { $0 } == ["follower closed>open"])
    let snapshot = breaker.snapshot()
    #expect(snapshot.retryAfter == .seconds(30))
    #expect(snapshot.trips == 1)
    #expect(snapshot.transitions.open == 1)
    #expect(try store.history().map(\.change.wireKind) == ["transition", "extension"])
    stage.clock.reboot(after: .seconds(5))
    #expect(try stage.sharedStore().snapshot(of: "follower")?.openEndsIn == .seconds(25))
    log.store.withLock { $0 = nil }
  }
}

import SharedBreaker
import TestSupport
import Testing

/// Writing on request what a process has not written yet.
@Suite struct FlushTests {
  private let stage: Stage

  init() throws {
    stage = try Stage()
    // Without a file for the counters, the process has counts of its own to write.
    try Files.makeDirectory(stage.directory.file("state"))
    try Files.makeDirectory(stage.store + "-counters")
  }

  /// The store of a process that waits for no other process.
  private func hastyStore(maximumBreakers: Int? = nil) -> SharedStore {
    SharedStore(
      path: stage.store,
      options: StoreOptions(
        lockTimeout: .milliseconds(1), maximumBreakers: maximumBreakers, clock: stage.clock.clock))
  }

  private func writtenSuccesses() throws -> String {
    try Database.value(stage.store, "SELECT total(successes) FROM breaker")
  }

  @Test func `a flush writes the counts of the process, which goes on counting`() throws {
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    for flushed in ["3.0", "6.0"] {
      for _ in 0..<3 { try breaker.run {} }
      #expect(try writtenSuccesses() != flushed)
      try store.flush()
      #expect(try writtenSuccesses() == flushed)
    }
  }

  @Test func `a flush with nothing to write does not create the store`() throws {
    let store = stage.sharedStore()
    _ = try store.breaker("api")
    try store.flush()
    #expect(!Files.exists(stage.store))
    #expect(store.health == .untried)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a flush that finds the store locked throws, and the next one writes everything`() throws {
    let store = hastyStore()
    let breaker = try store.breaker("api")
    for _ in 0..<3 { try breaker.run {} }
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    let error = #expect(throws: StoreError.self) { try store.flush() }
    #expect(error?.kind == .busy)
    #expect(holder != nil)
    holder = nil
    try store.flush()
    #expect(try writtenSuccesses() == "3.0")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a flush declares a policy that could not be declared before`() throws {
    let store = hastyStore()
    try store.connect()
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    _ = try store.breaker("api", policy: BreakerPolicy(maxFailures: 7))
    #expect(throws: StoreError.self) { try store.flush() }
    #expect(holder != nil)
    holder = nil
    try store.flush()
    #expect(try stage.sharedStore().snapshot(of: "api")?.policy.maxFailures == 7)
  }

  @Test func `a flush writes the other breakers if the store has no room for one`() throws {
    let store = hastyStore(maximumBreakers: 1)
    let breaker = try store.breaker("api")
    try breaker.run {}
    _ = try store.breaker("late", policy: BreakerPolicy(maxFailures: 7))
    for _ in 0..<2 {
      try breaker.run {}
      let error = #expect(throws: StoreError.self) { try store.flush() }
      #expect(error?.kind == .tooManyBreakers)
    }
    #expect(try writtenSuccesses() == "3.0")
  }

  /// Ends a probe while another process holds the store, and returns how.
  private func endProbe(of breaker: Breaker) throws -> Holder {
    try breaker.trip()
    stage.clock.advance(by: .seconds(2))
    let probe = try breaker.acquire()
    #expect(probe.kind == .probe)
    let holder = try Holder(stage.store, "BEGIN IMMEDIATE")
    probe.succeed()
    return holder
  }

  private static let probing = BreakerPolicy(
    maxFailures: 1, openFor: .seconds(2), probeTimeout: .seconds(3))

  @Test(.timeLimit(.minutes(60)))
  func `a flush writes how a probe went that ended while the store was locked`() throws {
    let store = hastyStore()
    let breaker = try store.breaker("api", policy: Self.probing)
    var holder: Holder? = try endProbe(of: breaker)
    let error = #expect(throws: StoreError.self) { try store.flush() }
    #expect(error?.kind == .busy)
    #expect(holder != nil)
    holder = nil
    try store.flush()
    #expect(store.health == .connected)
    // Otherwise the probe would now have taken too long.
    stage.clock.advance(by: .seconds(4))
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `closing writes how a probe went that ended while the store was locked`() throws {
    let store = hastyStore()
    let breaker = try store.breaker("api", policy: Self.probing)
    var holder: Holder? = try endProbe(of: breaker)
    #expect(holder != nil)
    holder = nil
    store.close()
    stage.clock.advance(by: .seconds(4))
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a flush with something to write throws while the store is gone`() throws {
    let store = hastyStore()
    let breaker = try store.breaker("api", policy: Self.probing)
    let holder = try endProbe(of: breaker)
    for _ in 0..<2 { #expect(throws: StoreError.self) { try store.flush() } }
    if case .unavailable = store.health {} else { Issue.record("\(store.health)") }
    withExtendedLifetime(holder) {}
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a policy declared while the store is locked takes effect afterwards`(fails: Bool) throws {
    let stage = try Stage()
    _ = try stage.sharedStore().breaker("api", policy: BreakerPolicy(maxFailures: 3))
    let options = StoreOptions(lockTimeout: .milliseconds(20), clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 7))
    #expect(holder != nil && store.health != .connected)
    holder = nil
    stage.clock.advance(by: .seconds(2))
    for _ in 0..<2 {
      if fails { _ = try breaker.acquire().fail() } else { try breaker.run {} }
      stage.clock.advance(by: .seconds(2))
    }
    #expect(store.health == .connected)
    #expect(try stage.sharedStore().snapshot(of: "api")?.policy.maxFailures == 7)
    let declared = try store.declarations(of: "api")
    #expect(declared.map(\.text) == ["max-failures=3", "max-failures=7"])
    #expect(declared.map(\.isInForce) == [false, true])
  }
}

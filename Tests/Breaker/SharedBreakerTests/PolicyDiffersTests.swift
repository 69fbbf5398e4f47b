import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// A policy in force that differs from the one that a process declared.
@Suite(.timeLimit(.minutes(60))) struct PolicyDiffersTests {
  private let old = BreakerPolicy(maxFailures: 1_000_000)
  private let new = BreakerPolicy(maxFailures: 900_000)

  @Test
  func `a process whose own policy takes effect is not notified of a differing policy`() throws {
    let stage = try Stage()
    _ = try stage.sharedStore().breaker("api", policy: old)
    let news = Told(on: stage)
    let breaker = try news.store.breaker("api", policy: new)
    try breaker.run {}
    #expect(breaker.snapshot().policy == new)
    #expect(news.differences == [])
  }

  @Test func `a process that declares its policy late is not notified of a difference`() throws {
    let stage = try Stage()
    let first = try stage.sharedStore().breaker("api", policy: old)
    let news = Told(on: stage, lockTimeout: .milliseconds(20))
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    let breaker = try news.store.breaker("api", policy: new)
    #expect(holder != nil && news.store.health != .connected)
    holder = nil
    try first.acquire().fail()
    stage.clock.advance(by: .seconds(2))
    #expect(breaker.snapshot().policy == old)
    try breaker.acquire().fail()
    #expect(breaker.snapshot().policy == new)
    #expect(news.differences == [])
  }

  @Test func `a process whose policy another process replaces is notified once`() throws {
    let stage = try Stage()
    let olds = Told(on: stage)
    let news = Told(on: stage)
    let before = try olds.store.breaker("api", policy: old)
    let after = try news.store.breaker("api", policy: new)
    for _ in 0..<3 {
      try before.acquire().fail()
      try after.acquire().fail()
    }
    #expect(olds.differences == ["max-failures=1000000 < max-failures=900000"])
    #expect(news.differences == [])
    // The old policy takes effect again, until the new one is declared again.
    _ = try olds.store.breaker("api", policy: old)
    try after.run {}
    #expect(olds.differences.count == 1)
    #expect(news.differences == ["max-failures=900000 < max-failures=1000000"])
    _ = try news.store.breaker("api", policy: new)
    try before.run {}
    #expect(olds.differences.count == 2)
    #expect(news.differences.count == 1)
  }

  @Test
  func `only the processes of an old release are notified of a new policy`() throws {
    for _ in 0..<rounds(20) {
      let stage = try Stage()
      let olds = (0..<2).map { _ in Told(on: stage) }
      let news = (0..<4).map { _ in Told(on: stage) }
      let before = try olds.map { try $0.store.breaker("api", policy: old) }
      let errors = Guarded<[any Error]>([])
      Threads.run(6) { index in
        do {
          if index < 2 {
            for _ in 0..<20 { try before[index].acquire().fail() }
          } else {
            let breaker = try news[index - 2].store.breaker("api", policy: new)
            for _ in 0..<5 { try breaker.acquire().fail() }
          }
        } catch {
          errors.withLock { $0.append(error) }
        }
      }
      for breaker in before { #expect(breaker.snapshot().policy == new) }
      #expect(errors.withLock { $0.isEmpty })
      #expect(news.map(\.differences) == [[], [], [], []])
      #expect(olds.map(\.differences.count) == [1, 1])
    }
  }

  @Test
  func `a differing policy is reported even if it was read before the own declaration`() throws {
    let stage = try Stage()
    let memory = MemoryStorage(clock: stage.clock.clock)
    let storage = InterruptedStorage(memory)
    let told = Told(on: storage, clock: stage.clock.clock)
    let other = SharedStore(
      storage: memory, options: StoreOptions(clock: stage.clock.clock))
    // The round of this second is done, so that asking writes nothing.
    #expect(try told.store.breaker("api").state == .closed)
    storage.afterNextTransaction { [old] in
      #expect(throws: Never.self) {
        _ = try other.breaker("api", policy: old)
        // As another thread of the process that is declaring its policy would do.
        #expect(try told.store.breaker("api").snapshot().policy == old)
      }
    }
    let breaker = try told.store.breaker("api", policy: new)
    #expect(breaker.snapshot().policy == old)
    #expect(told.differences == ["max-failures=900000 < max-failures=1000000"])
  }
}

/// A stand-in for a process, and what its observer hears about policies that differ.
private final class Told: Sendable {
  let store: SharedStore
  private let told: Guarded<[String]>

  var differences: [String] { told.withLock { $0 } }

  init(on stage: Stage, lockTimeout: Duration = .seconds(20)) {
    let told = Guarded<[String]>([])
    self.told = told
    store = SharedStore(
      path: stage.store,
      options: Self.options(told, lockTimeout: lockTimeout, clock: stage.clock.clock))
  }

  init(on storage: any BreakerStorage, clock: StoreClock) {
    let told = Guarded<[String]>([])
    self.told = told
    store = SharedStore(
      storage: storage, options: Self.options(told, lockTimeout: .seconds(20), clock: clock))
  }

  private static func options(
    _ told: Guarded<[String]>, lockTimeout: Duration, clock: StoreClock
  ) -> StoreOptions {
    StoreOptions(lockTimeout: lockTimeout, clock: clock) { event in
      guard case .policyDiffers(_, let here, let inForce) = event else { return }
      told.withLock { $0.append("\(here) < \(inForce)") }
    }
  }
}

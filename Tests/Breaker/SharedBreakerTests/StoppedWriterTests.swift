import BreakerStore
import Glibc
import TestSupport
import Testing

@testable import SharedBreaker

/// Threads and processes that find the store locked, such as by a stopped writer.
@Suite struct StoppedWriterTests {
  private static let policy = "max-failures=3 open-for=30s"

  /// A process that is stopped while it holds the store's write lock.
  private func stoppedWriter(on stage: Stage) throws -> Puppet {
    let writer = try stage.puppets(1, Self.policy, options: ["watch"])[0]
    try writer.ask("stop-at 3")
    #expect(try writer.ask("run fail").hasPrefix("at 3"))
    writer.process.stop()
    return writer
  }

  private func goOn(_ writer: Puppet) throws {
    writer.process.resume()
    #expect(try writer.ask("go") == "failed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes continue alone while a writer is stopped, and come back`() throws {
    let stage = try Stage()
    let other = try stage.puppets(1, Self.policy, options: ["lock-timeout=200"])[0]
    #expect(try other.ask("run ok") == "ok 42")
    let writer = try stoppedWriter(on: stage)
    // Healthy calls do not need the lock.
    #expect(try other.ask("run ok") == "ok 42")
    #expect(try other.ask("health") == "connected")

    var start = ContinuousClock.now
    #expect(try other.ask("run fail") == "failed")
    #expect(ContinuousClock.now - start < .seconds(60))
    #expect(try other.ask("health").hasPrefix("unavailable busy the store"))
    // A store that is only busy stays open, to be used again.
    #expect(try Int(other.ask("descriptors")) ?? 0 >= 3)
    start = .now
    #expect(try other.ask("failures 2") == "failed 2 rejected 0")
    #expect(try other.ask("run ok").hasPrefix("rejected open"))
    #expect(ContinuousClock.now - start < .seconds(60))
    stage.clock.advance(by: .seconds(1))
    #expect(try other.ask("run ok").hasPrefix("rejected open"))
    #expect(try other.ask("events") == "unavailable alone-closed>open")

    try goOn(writer)
    // The store was tried a moment ago and is not retried before a second has passed.
    stage.clock.advance(by: .milliseconds(999))
    #expect(try other.ask("run ok").hasPrefix("rejected open"))
    #expect(try other.ask("health").hasPrefix("unavailable busy the store"))
    stage.clock.advance(by: .milliseconds(1))
    #expect(try other.ask("run ok") == "ok 42")
    #expect(try other.ask("health") == "connected")
    #expect(try other.ask("events") == "unavailable alone-closed>open available")
    #expect(try other.ask("snapshot").contains("consecutive=0 trips=0 failures=1"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the death of a stopped writer frees every other process at once`() throws {
    let stage = try Stage()
    let other = try stage.puppets(1, Self.policy)[0]
    let writer = try stoppedWriter(on: stage)
    writer.kill()
    #expect(try other.ask("run fail") == "failed")
    #expect(try other.ask("health") == "connected")
    #expect(try other.ask("snapshot").contains("failures=1"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the threads of a process do not wait for a stopped writer one after the other`() throws {
    let stage = try Stage()
    let options = StoreOptions(lockTimeout: .seconds(5), clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("api")
    try breaker.run {}
    let writer = try stoppedWriter(on: stage)
    let wait = ContinuousClock().measure {
      Threads.run(12) { _ in
        do { try breaker.acquire().fail() } catch { Issue.record(error) }
      }
    }
    // If they had waited in turn, it would have taken a minute.
    #expect(wait < .seconds(40))
    try goOn(writer)
  }

  @Test(.timeLimit(.minutes(60)))
  func `an operator's command fails as busy while a writer is stopped`() throws {
    let stage = try Stage()
    let other = try stage.puppets(1, Self.policy, options: ["lock-timeout=50"])[0]
    let writer = try stoppedWriter(on: stage)
    #expect(try other.ask("trip").hasPrefix("store busy the store"))
    #expect(try other.ask("state") == "closed")
    try goOn(writer)
    #expect(try other.ask("trip") == "ok")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the threads of a process do not wait for a stopped maker one after the other`() throws {
    let stage = try Stage()
    try Files.makeDirectory(stage.directory.file("state"))
    let lock = try FileLock(stage.store + "-lock")
    let options = StoreOptions(lockTimeout: .seconds(5), clock: stage.clock.clock)
    let breaker = try SharedStore(path: stage.store, options: options).breaker("api")
    let wait = ContinuousClock().measure {
      Threads.run(12) { _ in
        do { try breaker.acquire().succeed() } catch { Issue.record(error) }
      }
    }
    // If they had waited in turn, it would have taken a minute.
    #expect(wait < .seconds(40))
    withExtendedLifetime(lock) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `no thread gives the store up because another one had less time to wait`() throws {
    let losses = Guarded(0)
    for _ in 0..<20 {
      let stage = try Stage()
      try Files.makeDirectory(stage.directory.file("state"))
      var lock: FileLock? = try FileLock(stage.store + "-lock")
      let options = StoreOptions(
        lockTimeout: .seconds(300), clock: stage.clock.clock,
        observer: { if case .unavailable = $0 { losses.withLock { $0 += 1 } } })
      let breaker = try SharedStore(path: stage.store, options: options).breaker("api")
      let threads = Threads()
      for _ in 0..<12 {
        threads.start {
          do { try breaker.acquire().succeed() } catch { Issue.record(error) }
        }
        // As callers that wait for room do, which look for a moment only.
        threads.start { for _ in 0..<20 { breaker.engine.readChanges(of: breaker.cell) } }
      }
      // If the threads are slower, they find the store free, and the test shows nothing.
      usleep(100_000)
      withExtendedLifetime(lock) { lock = nil }
      threads.join()
    }
    #expect(losses.withLock { $0 } == 0, "the store was given up")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker without room that asks again for a moment costs the others nothing`() throws {
    let stage = try Stage()
    let losses = Guarded(0)
    let options = StoreOptions(
      lockTimeout: .seconds(300), maximumBreakers: 1, clock: stage.clock.clock,
      observer: { if case .unavailable = $0 { losses.withLock { $0 += 1 } } })
    let store = SharedStore(path: stage.store, options: options)
    try store.breaker("api").run {}
    let alone = try store.breaker("more")
    try alone.run {}
    #expect(alone.health != .connected && store.health == .connected)
    let holder = try Holder(stage.store, "BEGIN IMMEDIATE")
    stage.clock.advance(by: .seconds(1))
    try alone.run {}
    #expect(store.health == .connected && losses.withLock { $0 } == 0)
    withExtendedLifetime(holder) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `a ramp that ends while another process writes costs its waiters nothing`() throws {
    let stage = try Stage()
    let losses = Guarded(0)
    let options = StoreOptions(
      lockTimeout: .seconds(300), clock: stage.clock.clock,
      observer: { if case .unavailable = $0 { losses.withLock { $0 += 1 } } })
    let store = SharedStore(path: stage.store, options: options)
    let policy = BreakerPolicy(rampUp: .seconds(10), queueTimeout: .seconds(3_600))
    let breaker = try store.breaker("api", policy: policy)
    try breaker.hold(for: .seconds(60))
    stage.clock.advance(by: .seconds(60))
    try breaker.run {}
    let permits = try (0..<2).map { _ in try breaker.acquire().shared() }
    let threads = Threads()
    threads.start { do { try breaker.run {} } catch { Issue.record(error) } }
    while breaker.snapshot().limit?.waiters.count != 1 { usleep(1_000) }
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    stage.clock.advance(by: .seconds(10))
    // The waiter looks at such a clock every few milliseconds. If it is slower, the test shows nothing.
    usleep(200_000)
    withExtendedLifetime(holder) { holder = nil }
    threads.join()
    #expect(losses.withLock { $0 } == 0, "the store was given up")
    permits.forEach { $0.succeed() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `threads that meet an unreadable file wait side by side, not one after the other`() throws {
    let stage = try Stage()
    try Files.makeDirectory(stage.directory.file("state"))
    let holder = try Holder(stage.store, "CREATE TABLE t (a); BEGIN EXCLUSIVE")
    let options = StoreOptions(lockTimeout: .seconds(5), clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("api")
    let longest = Guarded(Duration.zero)
    Threads.run(12) { _ in
      let time = ContinuousClock().measure { _ = try? breaker.run {} }
      longest.withLock { $0 = max($0, time) }
    }
    // In turn, the last one would have waited for a minute.
    #expect(longest.withLock { $0 } < .seconds(40))
    withExtendedLifetime(holder) {}
  }
}

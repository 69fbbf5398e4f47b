import BreakerStore
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Calls that are under way when their process is killed.
@Suite struct LostCallTests {
  private static let words = "max-concurrent=2 lost-calls=failure max-failures=2"

  @Test(.timeLimit(.minutes(60)))
  func `hung calls of killed processes open the breaker, and their room is free at once`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, Self.words)
    #expect(try puppets[0].ask("run") == "ok 42")
    for puppet in puppets.dropLast() {
      #expect(try puppet.ask("acquire") == "normal")
    }
    #expect(try puppets[2].ask("acquire") == "busy")
    for puppet in puppets.dropLast() { puppet.kill() }
    while try puppets[2].ask("acquire") == "busy" {}
    #expect(try puppets[2].ask("state") == "open")
    let counts = try stage.sharedStore().snapshot(of: "api")?.totals
    #expect(counts?.failures == 2 && counts?.lostCalls == 2)
  }

  /// All that it needs of the limit are two units, of which a process that lives has one.
  @Test(.timeLimit(.minutes(60)))
  func `a caller that has to wait on records killed calls, which open the breaker`() async throws {
    let words = "max-concurrent=2 queue-timeout=1h lost-calls=failure max-failures=1"
    for isTask in [false, true] {
      let stage = try Stage()
      let puppets = try stage.puppets(3, words)
      #expect(try puppets[0].ask("run") == "ok 42")
      for puppet in puppets.dropLast() { #expect(try puppet.ask("acquire") == "normal") }
      let breaker = try stage.sharedStore().breaker("api")
      let heavy = breaker.claiming(units: 2)
      let task = isTask ? Task { try await heavy.run { () async throws in 42 } } : nil
      if !isTask { try puppets[2].send("acquire 2") }
      while breaker.snapshot().limit?.waiters.count != 1 { await Task.yield() }
      puppets[0].kill()
      if let task {
        let error = await #expect(throws: BreakerError.self) { try await task.value }
        #expect(error?.rejection?.cause == .open)
      } else {
        #expect(try puppets[2].answer().hasPrefix("rejected open"))
      }
      #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 1)
    }
  }

  /// Otherwise it could hang as the others did, without a trace.
  @Test(.timeLimit(.minutes(60)))
  func `a call that takes the room of a killed one first records the loss`() throws {
    for mayWait in [true, false] {
      let stage = try Stage()
      let words = "max-concurrent=1 lost-calls=failure max-failures=1"
      let puppet = try stage.puppets(1, words)[0]
      let breaker = try stage.sharedStore().breaker("api")
      try breaker.run {}
      #expect(try puppet.ask("acquire") == "normal")
      guard case .rejected(let busy)? = try breaker.enter(mayWait: true) else {
        Issue.record("there is no room")
        return
      }
      #expect(busy.cause == .busy)
      puppet.kill()
      var rejection: Rejection?
      // A caller looks for the dead at most once a millisecond.
      while rejection?.cause != .open {
        // A call that would have to block is made again by a caller that may wait.
        let decision = try breaker.enter(mayWait: mayWait) ?? breaker.enter(mayWait: true)
        guard case .rejected(let found)? = decision else {
          Issue.record("the call is made: \(String(describing: decision))")
          return
        }
        rejection = found
      }
      #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 1)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `killed calls are noticed even while there is room`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-concurrent=9 lost-calls=failure max-failures=2")
    #expect(try puppets[0].ask("run") == "ok 42")
    for puppet in puppets.dropLast() { #expect(try puppet.ask("acquire") == "normal") }
    for puppet in puppets.dropLast() { puppet.kill() }
    // The first call of a later second looks after it, at most once a second on the host.
    while try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls != 2 {
      stage.clock.advance(by: .seconds(2))
      try #require(["ok 42", "rejected open 30000"].contains(puppets[2].ask("run")))
    }
    #expect(try puppets[2].ask("state") == "open")
  }

  /// Where every process makes one call, as under cron, none lives until the next second.
  @Test(.timeLimit(.minutes(60)))
  func `a new process records the lost calls of others before it makes its first call`() throws {
    for mayWait in [true, false] {
      let stage = try Stage()
      let puppets = try stage.puppets(2, "max-concurrent=9 lost-calls=failure max-failures=2")
      for puppet in puppets {
        #expect(try puppet.ask("acquire") == "normal")
        puppet.kill()
      }
      let breaker = try stage.sharedStore().breaker("api")
      // A call that would have to block is made again by a caller that may wait.
      let decision = try breaker.enter(mayWait: mayWait) ?? breaker.enter(mayWait: true)
      guard case .rejected(let rejection)? = decision else {
        Issue.record("the call is made: \(String(describing: decision))")
        return
      }
      #expect(rejection.cause == .open)
      #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 2)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `calls found lost while the store is held are recorded later, each of them once`() throws {
    let stage = try Stage()
    // One after the other, so that none loses the store to another one.
    let puppets = try (0..<4).flatMap { _ in
      try stage.puppets(
        1, "max-concurrent=1 lost-calls=failure max-failures=9", options: ["lock-timeout=200"])
    }
    #expect(try puppets[0].ask("acquire") == "normal")
    for puppet in puppets.dropFirst() { #expect(try puppet.ask("acquire") == "busy") }
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    puppets[0].kill()
    while try puppets[1].ask("acquire") == "busy" {}
    _ = try puppets[1].ask("succeed")
    withExtendedLifetime(holder) {}
    holder = nil
    // The process that found the loss need not live to record it.
    puppets[1].kill()
    while try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 0 {
      stage.clock.advance(by: .seconds(11))
      #expect(try puppets[2].ask("run") == "ok 42")
    }
    for _ in 0..<3 {
      stage.clock.advance(by: .seconds(11))
      // Both run at once, so one of them may find the room taken by the other.
      let answers = try Array(puppets.suffix(2)).ask("run")
      #expect(answers.contains("ok 42") && answers.allSatisfy { ["ok 42", "busy"].contains($0) })
    }
    let totals = try stage.sharedStore().snapshot(of: "api")?.totals
    #expect(totals?.lostCalls == 1 && totals?.failures == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a thread that waits to record a lost call keeps no other thread in deleted slots`()
    throws
  {
    let stage = try Stage()
    let store = SharedStore(
      path: stage.store,
      options: StoreOptions(lockTimeout: .seconds(3_600), clock: stage.clock.clock))
    let breaker = try store.breaker(
      "api", policy: BreakerPolicy(maxConcurrent: 1, lostCalls: .failure))
    try breaker.run {}
    let puppets = try stage.puppets(
      2, "max-concurrent=1 lost-calls=failure", options: ["lock-timeout=200"])
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    puppets[0].kill()
    // The process that finds the call lost cannot record it.
    while try puppets[1].ask("acquire") == "busy" {}
    _ = try puppets[1].ask("succeed")
    Files.removeAll(stage.store + "-slots")
    stage.clock.advance(by: .seconds(2))
    let threads = Threads()
    threads.start { try? breaker.run {} }
    // It does the round: it makes the file again, and then waits.
    while !Files.exists(stage.store + "-slots") {}
    var unitsInUse: Int?
    while unitsInUse != 1 {
      let permit = try breaker.acquire().shared()
      unitsInUse = try stage.sharedStore().snapshot(of: "api")?.limit?.unitsInUse
      permit.succeed()
    }
    withExtendedLifetime(holder) {}
    holder = nil
    threads.join()
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `calls of a process that exits by itself are not lost`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 lost-calls=failure max-failures=1")
    #expect(try puppets[0].ask("run") == "ok 42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    try puppets[0].send("exit")
    #expect(puppets[0].process.waitForEnd() == 0)
    // A caller looks for the dead at most once a millisecond.
    while try puppets[1].ask("acquire") == "busy" {}
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[1].ask("state") == "closed")
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.failures == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `calls of a killed process are lost once, though children of it live on or have exited`()
    throws
  {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 lost-calls=failure max-failures=9")
    for puppet in puppets { #expect(try puppet.ask("run") == "ok 42") }
    #expect(try puppets[0].ask("acquire") == "normal")
    // Neither child has a part in the call, so neither its exit nor its life says anything about it.
    let child = try #require(Int32(try puppets[0].ask("fork-idle")))
    defer { kill(child, SIGKILL) }
    _ = try puppets[0].ask("fork exit")
    #expect(try puppets[1].ask("run") == "busy")
    // By default, other signals than KILL end a process as suddenly.
    kill(puppets[0].pid, SIGTERM)
    #expect(puppets[0].process.waitForEnd() == -SIGTERM)
    // A caller looks for the dead at most once a millisecond.
    while try puppets[1].ask("run") == "busy" {}
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 1)
    kill(child, SIGKILL)
    for _ in 0..<3 {
      stage.clock.advance(by: .seconds(2))
      #expect(try puppets[1].ask("run") == "ok 42")
    }
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls == 1)
  }
}

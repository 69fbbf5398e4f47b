import BreakerStore
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Limits that real processes share in one file.
@Suite struct SharedLimitTests {
  private static let words = "max-concurrent=2 lost-calls=failure max-failures=2"

  @Test(.timeLimit(.minutes(60)))
  func `processes share a limit, and each call gives its room back`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "ok 42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "normal")
    #expect(try puppets.ask("acquire").count("busy") == 3)
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[2].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("fail") == "counted")
    #expect(try puppets[2].ask("ignore") == "counted")
    #expect(try puppets[1].ask("run") == "ok 42")
    #expect(try puppets[1].ask("state") == "closed")
    #expect(Files.exists(stage.store + "-slots"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes share a limit in a sandbox that has no fallocate`() throws {
    let stage = try Stage()
    #if arch(x86_64)
      let fallocate = 285
    #else
      let fallocate = 47
    #endif
    let puppets = try stage.puppets(
      2, "max-concurrent=1", options: ["without-call=\(fallocate)"])
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].ask("acquire") == "normal")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker without a limit makes no file of slots`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "max-failures=2")[0]
    #expect(try puppet.ask("run") == "ok 42")
    #expect(!Files.exists(stage.store + "-slots"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a snapshot shows the calls under way, and does not know them without the file`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "ok 42")
    let store = stage.sharedStore()
    for puppet in puppets { #expect(try puppet.ask("acquire") == "normal") }
    let shown = try #require(try store.snapshot(of: "api")?.limit)
    #expect(shown.unitsInUse == 2)
    #expect(Set(shown.calls.map(\.pid)) == Set(puppets.map { $0.process.pid }))
    #expect(shown.calls.allSatisfy { $0.program?.isEmpty == false && $0.age >= .zero })
    puppets[1].kill()
    #expect(puppets[1].process.waitForEnd() != 0)
    let left = try #require(try store.snapshot(of: "api")?.limit)
    #expect(left.unitsInUse == 1)
    #expect(left.calls.count { $0.isOwnerGone && $0.program == nil } == 1)
    // Only its beginning says what it belongs to.
    let path = stage.store + "-slots"
    let intact = try Files.read(path)
    for damage in [[], Array(intact.prefix(70_000)), [1] + intact.dropFirst()] {
      Files.removeAll(path)
      try Files.write(path, damage)
      #expect(try store.snapshot(of: "api")?.limit == nil)
    }
    Files.removeAll(path)
    #expect(try store.snapshot(of: "api")?.limit == nil)
    #expect(!Files.exists(path))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child has none of its parent's room, and gives none of it back`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "ok 42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[0].ask("fork succeed") == "refused")
    #expect(try puppets[0].ask("fork run") == "ok 42")
    #expect(try puppets[1].ask("acquire") == "normal")
    #expect(try puppets[0].ask("fork acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[0].ask("acquire") == "normal")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes find each other again when their file of slots was deleted`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1")
    #expect(try puppets[0].ask("run") == "ok 42")
    #expect(try puppets[1].ask("run") == "ok 42")
    Files.removeAll(stage.store + "-slots")
    // The next round of each looks after it.
    stage.clock.advance(by: .seconds(2))
    for puppet in puppets { #expect(try puppet.ask("run") == "ok 42") }
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].ask("acquire") == "normal")
  }

  /// In a copy of the file, calls are under way that no process ends.
  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `callers that wait in a file of slots that is lost move to the next one`(
    isCopy: Bool
  ) throws {
    let stage = try Stage()
    let page = stage.store + "-slots"
    let policy = "max-concurrent=3 queue-timeout=20s"
    let (holder, others) = (try stage.puppets(1, policy)[0], try stage.puppets(3, policy))
    #expect(try holder.ask("acquire 3") == "normal")
    if isCopy {
      let spare = stage.directory.file("spare")
      try Files.write(spare, try Files.read(page))
      try Files.rename(spare, to: page)
      #expect(try holder.ask("succeed") == "counted")
    }
    stage.clock.advance(by: .seconds(2))
    for other in others { try other.send("acquire") }
    let store = stage.sharedStore()
    while try store.snapshot(of: "api")?.limit?.waiters.count != 3 { sched_yield() }
    Files.removeAll(page)
    stage.clock.advance(by: .seconds(2))
    // The waiters notice it by themselves: no process makes a call that would.
    for other in others { #expect(try other.answer() == "normal") }
    #expect(try store.snapshot(of: "api")?.limit?.unitsInUse == 3)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the calls of a restored file of slots count until their process ends`() throws {
    let stage = try Stage()
    let page = stage.store + "-slots"
    let puppets = try stage.puppets(2, "max-concurrent=1")
    #expect(try puppets[0].ask("acquire") == "normal")
    let spare = stage.directory.file("spare")
    try Files.write(spare, try Files.read(page))
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].ask("run") == "ok 42")
    try Files.rename(spare, to: page)
    stage.clock.advance(by: .seconds(2))
    // The round of the first call notices it.
    _ = try puppets[1].ask("run")
    #expect(try puppets[1].ask("run") == "busy")
    puppets[0].kill()
    // A caller looks for the dead at most once a millisecond.
    var answer: String
    repeat { answer = try puppets[1].ask("run") } while answer == "busy"
    #expect(answer == "ok 42")
  }

  @Test(.timeLimit(.minutes(60)))
  func `time in which the machine was suspended does not count as waiting`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 queue-timeout=1h")
    #expect(try puppets[0].ask("acquire") == "normal")
    let store = stage.sharedStore()
    try puppets[1].send("acquire")
    while try store.snapshot(of: "api")?.limit?.waiters.count != 1 { sched_yield() }
    stage.clock.advance(by: .seconds(7_200))
    // It has looked around since, as it does 20 times a second.
    let before = try puppets[1].naps
    while try puppets[1].naps < before + 3 { sched_yield() }
    #expect(try store.snapshot(of: "api")?.limit?.waiters.count == 1)
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].answer() == "normal")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a caller that waits moves as often as its file of slots is replaced`() throws {
    let stage = try Stage()
    let page = stage.store + "-slots"
    let holder = try stage.puppets(1, "max-concurrent=1 queue-timeout=20s")[0]
    #expect(try holder.ask("acquire") == "normal")
    let copy = try Files.read(page)
    let breaker = try stage.sharedStore().breaker("api")
    let threads = Threads()
    let hasRun = Guarded<Bool?>(nil)
    threads.start {
      let answer = (try? breaker.run { true }) ?? false
      hasRun.withLock { $0 = answer }
    }
    func untilWaiting() {
      while hasRun.withLock({ $0 }) == nil, breaker.snapshot().limit?.waiters.count != 1 {
        sched_yield()
      }
    }
    untilWaiting()
    for _ in 0..<12 {
      let spare = stage.directory.file("spare")
      try Files.write(spare, copy)
      try Files.rename(spare, to: page)
      stage.clock.advance(by: .seconds(2))
      untilWaiting()
      #expect(hasRun.withLock { $0 } == nil)
    }
    Files.removeAll(page)
    stage.clock.advance(by: .seconds(2))
    _ = breaker.snapshot()
    threads.join()
    #expect(hasRun.withLock { $0 } == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a caller that waits gives up in time, however often its file of slots is replaced`()
    throws
  {
    let stage = try Stage()
    let page = stage.store + "-slots"
    let holder = try stage.puppets(1, "max-concurrent=1 queue-timeout=2s")[0]
    #expect(try holder.ask("acquire") == "normal")
    let copy = try Files.read(page)
    let breaker = try stage.sharedStore().breaker("api")
    let threads = Threads()
    let cause = Guarded<RejectionCause??>(nil)
    threads.start {
      var answer: RejectionCause?
      do throws { try breaker.run {} } catch { answer = (error as? BreakerError)?.rejection?.cause }
      cause.withLock { $0 = .some(answer) }
    }
    func isWaiting() -> Bool { cause.withLock { $0 } == nil }
    while isWaiting() {
      let spare = stage.directory.file("spare")
      try Files.write(spare, copy)
      try Files.rename(spare, to: page)
      stage.clock.advance(by: .seconds(2))
      while isWaiting(), breaker.snapshot().limit?.waiters.count != 1 { sched_yield() }
    }
    threads.join()
    #expect(cause.withLock { $0 } == .some(.busy))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a thousand tasks wait with one thread, and all of them have their turn`() async throws {
    let stage = try Stage()
    let policy = BreakerPolicy(maxConcurrent: 2, queueTimeout: .seconds(3_600))
    let breaker = try stage.sharedStore().breaker("api", policy: policy)
    try await breaker.run {}
    let permits = [try await breaker.acquire().shared(), try await breaker.acquire().shared()]
    let underWay = Guarded((now: 0, most: 0, all: 0))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<1_000 {
        group.addTask {
          try await breaker.run { () async throws in
            underWay.withLock { count in
              count.now += 1
              count.all += 1
              count.most = max(count.most, count.now)
            }
            await Task.yield()
            underWay.withLock { $0.now -= 1 }
          }
        }
      }
      while breaker.snapshot().limit?.waiters.count != 1_000 { await Task.yield() }
      // Other tests of this process have stores of their own, each with one.
      #expect(ProcessThreads.count(named: "breaker-queue") < 100)
      for permit in permits { permit.succeed() }
      try await group.waitForAll()
    }
    #expect(underWay.withLock { $0.all } == 1_000)
    #expect(underWay.withLock { $0.most } <= 2)
    #expect(breaker.snapshot().limit?.waits.count == 1_000)
  }

  @Test(.timeLimit(.minutes(60)))
  func `waiting tasks leave their places when they are cancelled, and when the breaker opens`()
    async throws
  {
    let stage = try Stage()
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try stage.sharedStore().breaker("api", policy: policy)
    try await breaker.run {}
    let permit = try await breaker.acquire()
    let tasks = (0..<8).map { _ in Task { try await breaker.run { () async throws in 42 } } }
    while breaker.snapshot().limit?.waiters.count != 8 { await Task.yield() }
    for task in tasks.prefix(4) { task.cancel() }
    for task in tasks.prefix(4) {
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(breaker.snapshot().limit?.waiters.count == 4)
    try breaker.trip()
    for task in tasks.suffix(4) {
      let error = await #expect(throws: BreakerError.self) { try await task.value }
      #expect(error?.rejection?.cause == .open)
    }
    #expect(breaker.snapshot().limit?.waiters.isEmpty == true)
    permit.ignore()
  }

  @Test(.timeLimit(.minutes(60)))
  func `waiters keep their order when a process exits or is killed`() async throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 queue-timeout=1h")
    #expect(try puppets[0].ask("run") == "ok 42")
    #expect(try puppets[0].ask("acquire") == "normal")
    let breaker = try stage.sharedStore().breaker("api")
    let tasks = (0..<4).map { _ in Task { try await breaker.run { () async throws in 42 } } }
    while breaker.snapshot().limit?.waiters.count != 4 { await Task.yield() }
    puppets[0].kill()
    for task in tasks { #expect(try await task.value == 42) }
  }

  @Test(.timeLimit(.minutes(60)))
  func
    `a command inside of a call uses its room, and a token that outlives the call is worth nothing`()
    throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxConcurrent: 1))
    try breaker.run {}
    let permit = try breaker.acquire()
    let environment = permit.environment
    #expect(Array(environment.keys) == ["SHARED_BREAKER_INSIDE"])
    let words = environment.map { "\($0)=\($1)" }
    let inside = try Puppet(on: stage, startedBy: words)
    let outside = try stage.puppet()
    #expect(try inside.ask("run") == "ok 42")
    #expect(try inside.ask("acquire") == "normal")
    #expect(try outside.ask("run") == "busy")
    permit.succeed()
    #expect(try outside.ask("acquire") == "normal")
    #expect(try inside.ask("run") == "busy")
    #expect(try outside.ask("succeed") == "counted")
    // Only one of the two calls had room of its own, so reporting the other frees nothing.
    #expect(try outside.ask("acquire") == "normal")
    #expect(try inside.ask("succeed") == "counted")
    #expect(try inside.ask("run") == "busy")
    let plain = try store.breaker("plain")
    try plain.run {}
    #expect(try plain.acquire().environment.isEmpty)
  }

  /// The fate of a call in which a process has started its successor.
  enum Course: CaseIterable { case ends, endsWithItsProcess, goesOn }

  @Test(.timeLimit(.minutes(60)), arguments: Course.allCases)
  func `a process that starts its successor hands down only calls that have not ended`(
    course: Course
  ) throws {
    let stage = try Stage()
    var chain: [Puppet] = []
    var words: [String] = []
    let generations = 60
    for generation in 0..<generations {
      let puppet = try Puppet(on: stage, startedBy: words)
      #expect(try puppet.ask("name \(course == .ends ? "job" : "job\(generation)")") == "ok")
      #expect(try puppet.ask("open max-concurrent=1") == "ok")
      switch course {
      case .ends: #expect(try chain.last?.ask("succeed") ?? "counted" == "counted")
      case .endsWithItsProcess: chain.last?.kill()
      case .goesOn: break
      }
      #expect(try puppet.ask("acquire") == "normal")
      words = [try puppet.ask("environment")]
      let named = words[0].split(separator: " ").count
      #expect(named == (course == .goesOn ? generation + 1 : 1), "generation \(generation)")
      chain.append(puppet)
    }
    guard course == .goesOn else { return }
    let (inside, outside) = (try Puppet(on: stage, startedBy: words), try stage.puppet())
    for generation in [0, generations - 1] {
      for puppet in [inside, outside] { try puppet.ask("name job\(generation)") }
      #expect(try inside.ask("run") == "ok 42")
      #expect(try outside.ask("run") == "busy")
    }
  }

  @Test func `inside of run the breaker has the environment of its command`() async throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("api", policy: BreakerPolicy(maxConcurrent: 1))
    #expect(breaker.environment.isEmpty)
    func answer() throws -> String {
      let words = breaker.environment.map { "\($0)=\($1)" }
      return try Puppet(on: stage, startedBy: words).ask("run")
    }
    let runs = try await [
      breaker.run { try answer() },
      breaker.run { () async throws in
        await Task.yield()
        return try answer()
      },
    ]
    #expect(runs == ["ok 42", "ok 42"])
    #expect(breaker.environment.isEmpty)
  }

  @Test func `a call through another store of the same file is inside too`() async throws {
    let stage = try Stage()
    let policy = BreakerPolicy(maxConcurrent: 1)
    let stores = (0..<3).map { _ in stage.sharedStore() }
    let breakers = try stores.map { try $0.breaker("api", policy: policy) }
    @Sendable func isBusy(_ breaker: Breaker) -> Bool { (try? breaker.acquire()) == nil }
    for breaker in breakers { try await breaker.run {} }
    for (outer, inner) in [(breakers[0], breakers[1]), (breakers[1], breakers[0])] {
      try await outer.run { () throws in
        try inner.run { () throws in
          try outer.run { #expect(inner.snapshot().limit?.unitsInUse == 1) }
          #expect(try inner.acquire().environment == outer.acquire().environment)
          #expect(try !inner.acquire().environment.isEmpty)
          // A thread of its own is not inside.
          let threads = Threads()
          threads.start { #expect(isBusy(inner) && isBusy(outer)) }
          threads.join()
        }
        #expect(outer.snapshot().limit?.unitsInUse == 1)
      }
      try await outer.run { () async throws in
        try await inner.run { () async throws in
          #expect(outer.snapshot().limit?.unitsInUse == 1)
        }
      }
      #expect(outer.snapshot().limit?.unitsInUse == 0)
    }
    // The room of a store that is closed is its own.
    let permit = try await breakers[0].acquire().shared()
    stores[2].close()
    #expect(isBusy(breakers[1]))
    permit.succeed()
    #expect(!isBusy(breakers[1]))
  }

  @Test func `a permit inside of calls names all of them to a command`() throws {
    let store = try Stage().sharedStore()
    let policy = BreakerPolicy(maxConcurrent: 1)
    let (gpu, disk) = (
      try store.breaker("gpu", policy: policy), try store.breaker("disk", policy: policy)
    )
    try gpu.run {}
    try disk.run {}
    func named(_ breaker: Breaker) throws -> Int {
      let environment = try breaker.acquire().environment
      return environment["SHARED_BREAKER_INSIDE"]?.split(separator: " ").count ?? 0
    }
    try gpu.run { () throws in
      #expect(try named(gpu) == 1)
      try disk.run { () throws in
        #expect(try named(disk) == 2)
        #expect(try named(gpu) == 2)
      }
      #expect(try named(disk) == 2)
    }
    #expect(try named(disk) == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes go on sharing their limit while another one holds the store`() throws {
    let stage = try Stage()
    // One after the other, so that neither loses the store to the other one.
    let puppets = try (0..<2).flatMap { _ in
      try stage.puppets(1, "max-concurrent=1", options: ["lock-timeout=20"])
    }
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    let holder = try Holder(stage.store, "BEGIN IMMEDIATE")
    // Each of them loses the store.
    for puppet in puppets { #expect(try puppet.ask("run fail") == "failed") }
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].ask("acquire") == "normal")
    withExtendedLifetime(holder) {}
  }
}

extension Puppet {
  /// How often its first thread has gone to sleep.
  fileprivate var naps: Int {
    get throws {
      let status = String(decoding: try Files.read("/proc/\(pid)/status"), as: UTF8.self)
      let count = status.firstMatch(of: /\nvoluntary_ctxt_switches:\t([0-9]+)/)?.1
      return try #require(count.flatMap { Int($0) })
    }
  }
}

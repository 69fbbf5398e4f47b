@_spi(Relay) import BreakerCore
import Glibc
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Probes of breakers that limit how many calls are under way, over real stores and processes.
@Suite(.timeLimit(.minutes(60))) struct ProbeUnderLimitTests {
  /// How a caller asks for room.
  enum Way: CaseIterable {
    case thread
    case task
    case turn
  }

  /// An event that makes a breaker due for a probe while callers wait for room.
  enum Change: CaseIterable {
    case shortTrip
    case backup
    case suspicion
  }

  private let stage: Stage
  private let store: SharedStore
  private let breaker: Breaker

  init() throws {
    stage = try Stage()
    store = stage.sharedStore()
    breaker = try store.breaker("api")
  }

  /// Starts processes, each of which has a call under way.
  private func holders(_ count: Int, _ words: String) throws -> [Puppet] {
    let puppets = try stage.puppets(count, words)
    #expect(try puppets[0].ask("run") == "ok 42")
    for puppet in puppets { #expect(try puppet.ask("acquire") == "normal") }
    return puppets
  }

  /// Makes a call in one of the ways, and returns what rejected it; nil if it was made.
  private func call(_ way: Way) async throws -> RejectionCause? {
    do {
      switch way {
      case .thread: try await callInThread()
      case .task: try await breaker.run { () async throws in }
      case .turn: return try await callInTurn()
      }
      return nil
    } catch let error as BreakerError {
      return try #require(error.rejection).cause
    }
  }

  private func callInThread() async throws {
    let threads = Threads()
    let ending: Result<Void, any Error> = await withCheckedContinuation { caller in
      threads.start { [breaker] in
        caller.resume(returning: Result { try breaker.run { () throws in } })
      }
    }
    threads.join()
    try ending.get()
  }

  private func callInTurn() async throws -> RejectionCause? {
    var decision: Decision<Ticket>?
    switch try breaker.beginTurn(mayWait: true) {
    case .decided(let early)?: decision = early
    case .waits(let turn)?:
      while decision == nil {
        if case .decided(let late) = try turn.take(mayWait: true) { decision = late }
        await Task.yield()
      }
    case .noDescriptor?, nil: Issue.record("there is no turn")
    }
    switch decision {
    case .permitted(let permit)?:
      #expect(breaker.leave(permit, .success, elapsed: nil, mayWait: true) == .counted)
      return nil
    case .rejected(let rejection)?: return rejection.cause
    case nil: throw CancellationError()
    }
  }

  /// Makes a call as soon as the room of killed processes is free, for which a caller looks at most once a
  /// millisecond.
  private func callOnceThereIsRoom(_ way: Way) async throws -> RejectionCause? {
    while true {
      let cause = try await call(way)
      if cause != .busy { return cause }
    }
  }

  /// Makes the breaker due for a probe, in a store of its own.
  private func make(_ change: Change) throws {
    let other = stage.sharedStore()
    switch change {
    case .shortTrip: try other.breaker("api").trip(for: .zero)
    case .backup:
      var backup = try #require(try other.snapshot(of: "api")).backup
      backup.state = .halfOpen
      try other.restore([backup], replacing: true)
    case .suspicion:
      let relay = try #require(try other.claimRelay(fleet: "f", host: "b"))
      #expect(
        try relay.apply([.suspicion(name: "api", hosts: 2)], position: nil) == [.applied])
      relay.release()
    }
    other.close()
  }

  @Test(arguments: ["failure", "ignored"], Way.allCases)
  func `a probe is made although killed processes had all the room`(
    lostCalls: String, way: Way
  ) async throws {
    let killed = try holders(2, "max-concurrent=2 max-failures=9 lost-calls=\(lostCalls)")
    try breaker.trip()
    stage.clock.advance(by: .seconds(30))
    for puppet in killed { puppet.kill() }
    #expect(try await callOnceThereIsRoom(way) == nil)
    let snapshot = try #require(try store.snapshot(of: "api"))
    #expect(snapshot.state == .closed && snapshot.leases.isEmpty)
    #expect(snapshot.totals.lostCalls == 2)
  }

  @Test(arguments: Change.allCases, Way.allCases)
  func `a caller that becomes a probe while it waits leaves no lease behind if there is no room`(
    change: Change, way: Way
  ) async throws {
    let holder = try holders(1, "max-concurrent=1 queue-timeout=1h fleet-quorum=2")[0]
    // A copy, because the task must not share the test itself.
    let test = self
    let waiting = Task { try await test.call(way) }
    while try store.snapshot(of: "api")?.limit?.waiters.count != 1 { await Task.yield() }
    try make(change)
    #expect(try await waiting.value == .busy)
    let left = try #require(try store.snapshot(of: "api"))
    #expect(left.state != .closed && left.leases.isEmpty)
    holder.kill()
    #expect(try await callOnceThereIsRoom(way) == nil)
    #expect(try store.snapshot(of: "api")?.state == .closed)
  }

  @Test func `a caller that has its room when it becomes a probe is permitted in it`() throws {
    let words = "max-concurrent=1 queue-timeout=1h"
    let holder = try holders(1, words)[0]
    let waiting = try stage.puppets(1, words)[0]
    try waiting.send("acquire")
    while try store.snapshot(of: "api")?.limit?.waiters.count != 1 { sched_yield() }
    // Stopped, so that it finds both changes at once.
    #expect(kill(waiting.pid, SIGSTOP) == 0)
    try make(.shortTrip)
    #expect(try holder.ask("succeed") == "outdated")
    #expect(kill(waiting.pid, SIGCONT) == 0)
    #expect(try waiting.answer() == "probe")
    #expect(try store.snapshot(of: "api")?.limit?.unitsInUse == 1)
    #expect(try waiting.ask("succeed") == "counted")
    #expect(try store.snapshot(of: "api")?.state == .closed)
  }
}

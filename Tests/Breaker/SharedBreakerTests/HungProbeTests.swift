import BreakerStore
import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A probe that never reports, as other processes see it.
@Suite struct HungProbeTests {
  private static let policy = BreakerPolicy(
    maxFailures: 1, openFor: .seconds(2), probeTimeout: .seconds(1))

  /// A breaker with a probe that has no owner whose end would free the slot.
  private func probed(_ stage: Stage) throws -> (SharedStore, PermitToken) {
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: Self.policy)
    try breaker.trip()
    stage.clock.advance(by: .seconds(2))
    return (store, try breaker.acquireToken())
  }

  @Test(.timeLimit(.minutes(60)))
  func `every process that asks sees a hung probe fail at its deadline without a write`() throws {
    let stage = try Stage()
    let (_, token) = try probed(stage)
    let asker = stage.sharedStore()
    let breaker = try #require(try asker.existingBreaker("api"))
    let before = try Database.rows(stage.store, "SELECT * FROM breaker; SELECT * FROM lease")
    stage.clock.advance(by: .milliseconds(999))
    #expect(breaker.state == .halfOpen)
    #expect(breaker.snapshot().retryAfter == .milliseconds(1))
    stage.clock.advance(by: .milliseconds(1))
    #expect(breaker.state == .open)
    #expect(breaker.snapshot().retryAfter == .seconds(2))
    #expect(!breaker.snapshot().isProbeDue)
    stage.clock.advance(by: .seconds(3_600))
    let listed = try asker.snapshots()[0]
    for snapshot in [breaker.snapshot(), listed, try #require(try asker.snapshot(of: "api"))] {
      #expect(snapshot.state == .open)
      #expect(snapshot.permits)
      #expect(snapshot.isProbeDue)
      #expect(snapshot.retryAfter == nil)
      #expect(snapshot.leases.isEmpty)
      #expect(snapshot.trips == 2)
      #expect(snapshot.totals.failures == 1)
      #expect(snapshot.lastError == "the probe took longer than probe-timeout")
      #expect(snapshot.lastFailureAt == BreakerTimestamp(millisecondsSince1970: 1_800_000_003_000))
      #expect(snapshot.openedAt == snapshot.lastFailureAt)
      #expect(snapshot.changedAt == snapshot.lastFailureAt)
      #expect(snapshot.timeInState == .seconds(3_600))
      #expect(snapshot.timeInStates.halfOpen == .seconds(1))
    }
    let after = try Database.rows(stage.store, "SELECT * FROM breaker; SELECT * FROM lease")
    #expect(after == before)
    #expect(try stage.sharedStore().report(token, .success) == .refused)
    #expect(try breaker.acquire().kind == .probe)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker whose probe hung is listed among the open ones`() throws {
    let stage = try Stage()
    let (store, _) = try probed(stage)
    #expect(try store.snapshots(in: .halfOpen).map(\.name) == ["api"])
    #expect(try store.snapshots(in: .open).isEmpty)
    stage.clock.advance(by: .seconds(1))
    #expect(try store.snapshots(in: .halfOpen).isEmpty)
    #expect(try store.snapshots(in: .open).map(\.name) == ["api"])
    #expect(try store.snapshots(in: .closed).isEmpty)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the next transaction first records what time has done, with the right times`() throws {
    let stage = try Stage()
    let (store, _) = try probed(stage)
    let breaker = try store.breaker("api")
    try breaker.force(.observe, for: .seconds(60), reason: "drill")
    stage.clock.advance(by: .seconds(100))
    #expect(
      breaker.snapshot().modeEndedAt == BreakerTimestamp(millisecondsSince1970: 1_800_000_062_000))
    try breaker.overridePolicy(set: [.openFor: "1h"])
    let entries = try store.history(of: "api").suffix(4)
    #expect(entries.map(\.change.wireKind) == ["probe", "transition", "mode", "policy"])
    #expect(entries.map(\.change.wireTo) == ["timed_out", "open", "automatic", "open-for=1h"])
    #expect(
      entries.map { $0.at.millisecondsSince1970 - 1_800_000_000_000 }
        == [3_000, 3_000, 62_000, 102_000])
    #expect(entries.first?.reason == "it took longer than probe-timeout")
    // The earlier policy decides what was over before the policy changed.
    #expect(breaker.snapshot().isProbeDue)
    #expect(breaker.snapshot().modeEndedAt == nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `an observer is notified once when its process records an opening at a deadline`() throws {
    let stage = try Stage()
    _ = try probed(stage)
    let told = Guarded<[String]>([])
    let options = StoreOptions(clock: stage.clock.clock) { event in
      guard case .transition(_, let from, let to, _) = event else { return }
      told.withLock { $0.append("\(from.wireName)>\(to.wireName)") }
    }
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("api")
    stage.clock.advance(by: .seconds(1))
    for _ in 0..<3 { #expect(breaker.state == .open) }
    #expect(told.withLock { $0 }.isEmpty)
    for _ in 0..<3 { #expect(throws: BreakerError.self) { _ = try breaker.acquire() } }
    #expect(told.withLock { $0 } == ["half_open>open"])
    #expect(try stage.transitions("half_open", "open") == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the deletion of a breaker first records how its probe ended`() throws {
    let stage = try Stage()
    let (store, _) = try probed(stage)
    stage.clock.advance(by: .seconds(9))
    #expect(try store.delete("api"))
    let entries = try store.history(of: "api").suffix(3)
    #expect(entries.map(\.change.wireTo) == ["timed_out", "open", "deleted"])
    #expect(entries.last?.change.wireFrom == "open")
    #expect(try Database.value(stage.store, "SELECT count(*) FROM lease") == "0")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the history records a prober that died, with its pid`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=30s probe-timeout=10s")
    #expect(try puppets[0].ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(30))
    #expect(try puppets[0].ask("acquire") == "probe")
    puppets[0].kill()
    let store = stage.sharedStore()
    let look = try #require(try store.snapshot(of: "api"))
    #expect(look.state == .halfOpen)
    #expect(look.permits)
    #expect(look.leases.map(\.isOwnerGone) == [true])
    #expect(try store.history(of: "api").allSatisfy { $0.change.wireKind != "probe" })
    #expect(try puppets[1].ask("acquire") == "probe")
    let entry = try #require(try store.history(of: "api").last { $0.change.wireKind == "probe" })
    #expect(entry.change.wireTo == "lost")
    #expect(entry.reason == "process \(puppets[0].pid) has ended")
    #expect(entry.pid == puppets[1].pid)
    #expect(try store.snapshot(of: "api")?.totals.failures == 1)
  }

  @Test func `a breaker in memory fails a hung probe at its deadline too`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: Self.policy)
    try breaker.trip()
    host.clock.advance(by: .seconds(2))
    let permit = try breaker.acquire()
    host.clock.advance(by: .seconds(1))
    #expect(breaker.state == .open)
    host.clock.advance(by: .seconds(2))
    #expect(breaker.snapshot().isProbeDue)
    #expect(permit.succeed() == .refused)
    #expect(breaker.snapshot().totals.failures == 1)
  }
}

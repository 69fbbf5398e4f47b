import BreakerStore
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// News of other hosts that a relay writes into its store.
@Suite struct RelayNewsTests {
  private static func command(
    _ action: FleetCommand.Action, stamp: Int64, host: String = "b", name: String = "api",
    age: Duration = .zero
  ) -> FleetCommand {
    FleetCommand(
      name: name, action: action, reason: "drill", author: "cbctl (pid 9)", host: host,
      stamp: stamp, age: age)
  }

  private static let policy = BreakerPolicy(
    maxFailures: 1, openFor: .seconds(30), fleetQuorum: .hosts(2), fleetSpread: .seconds(4))

  private static func position(_ number: Int64, epoch: String = "e") -> FleetPosition {
    FleetPosition(epoch: epoch, number: number, entry: "\(number)-0")
  }

  @Test func `commands of other hosts are carried out, each with the host that it came from`()
    throws
  {
    let stage = try Stage()
    let events = Guarded<[StoreEvent]>([])
    let options = StoreOptions(clock: stage.clock.clock) { event in
      events.withLock { $0.append(event) }
    }
    let store = SharedStore(path: stage.store, options: options)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let news: [FleetNews] = [
      .command(Self.command(.trip(for: nil), stamp: 1)),
      .command(Self.command(.force(.observe, for: .seconds(60)), stamp: 2, age: .seconds(20))),
      .command(Self.command(.policy(set: [.probes: "3"], unset: []), stamp: 3)),
      .command(Self.command(.trip(for: .seconds(600)), stamp: 4, age: .seconds(100))),
    ]
    #expect(
      try relay.apply(news, position: Self.position(4))
        == [.noBreaker, .applied, .applied, .applied])
    let snapshot = try #require(try store.snapshot(of: "api"))
    #expect(snapshot.state == .open)
    #expect(snapshot.openEndsIn == .seconds(500))
    #expect(snapshot.mode == .observe)
    #expect(snapshot.modeEndsIn == .seconds(40))
    #expect(snapshot.modeSetBy == "cbctl (pid 9) on b (unverified)")
    #expect(snapshot.policy.probes == 3)
    let history = try store.history(of: "api")
    #expect(history.map(\.host) == ["b", "b", "b"])
    #expect(history.map(\.reason) == ["drill", "drill", "drill"])
    #expect(
      events.withLock { $0 } == [
        .transition(name: "api", from: .closed, to: .open, reason: "drill")
      ])
    // None of it is told to other hosts again.
    #expect(try relay.pendingCommands() == [])
    #expect(
      try relay.apply(news, position: Self.position(4)) == [
        .overtaken, .overtaken, .overtaken, .overtaken,
      ])
    #expect(try store.history(of: "api") == history)
    #expect(try store.fleetStanding()?.position == Self.position(4))
    // A command of this host is the latest from now on.
    try store.breaker("api").reset(scope: .fleet)
    #expect(try relay.pendingCommands().map(\.command.stamp) == [1_800_000_000_000])
  }

  @Test func `a process sees what the relay has applied at its next call`() throws {
    let stage = try Stage()
    let worker = stage.sharedStore()
    let api = try worker.breaker("api", policy: Self.policy)
    #expect(try api.run { 42 } == 42)
    let relay = try #require(try stage.sharedStore().claimRelay(fleet: "prod", host: "a"))
    #expect(try relay.apply([.suspicion(name: "api", hosts: 2)], position: nil) == [.applied])
    let probe = try api.acquire()
    let kind = probe.kind
    #expect(kind == .probe)
    _ = probe.fail()
    #expect(api.state == .open)
    #expect(api.snapshot().suspectedAt == stage.clock.clock.wallTime)
    #expect(
      try worker.history(of: "api").map(\.change.description).suffix(2)
        == ["suspicion: closed -> half_open", "suspicion: half_open -> open"])
    #expect(try worker.history(of: "api").contains { $0.beginsOutage })
  }

  @Test func `a recovery elsewhere makes the breaker due within fleet-spread`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let api = try store.breaker("api", policy: Self.policy)
    _ = try api.acquire().fail()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let news = FleetNews.recovery(name: "api", host: "b")
    #expect(try relay.apply([news], position: nil) == [.applied])
    #expect(try #require(api.snapshot().openEndsIn) < .seconds(4))
    let entry = try #require(try store.history(of: "api").last)
    #expect(entry.change == .recovery)
    #expect(entry.host == "b")
    #expect(entry.reason == "b recovered")
    stage.clock.advance(by: .seconds(4))
    #expect(try api.acquire().kind == .probe)
    #expect(try relay.apply([news], position: nil) == [.unneeded])
    #expect(
      try relay.apply([.recovery(name: "none", host: "b")], position: nil) == [.noBreaker])
    #expect(
      try relay.apply([.suspicion(name: "none", hosts: 9)], position: nil) == [.noBreaker])
  }

  @Test func `a hold of another host is kept in the file with its host`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let llm = try store.breaker("llm", policy: BreakerPolicy(fleetHold: true))
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    func hear(_ hold: FleetHold) throws -> FleetVerdict? {
      try relay.apply([.hold(name: "llm", host: "b", hold)], position: nil).first
    }
    let none = FleetNews.hold(name: "none", host: "b", FleetHold(left: .seconds(60)))
    #expect(try relay.apply([none], position: nil) == [.noBreaker])
    #expect(try hear(FleetHold(left: .seconds(60), after: 4, reason: "HTTP 429")) == .applied)
    let read = try stage.sharedStore().breaker("llm").snapshot()
    #expect(read.hold == llm.snapshot().hold)
    #expect(read.hold?.host == "b" && read.hold?.reason == "HTTP 429")
    #expect(read.hold?.endsIn == .seconds(60))
    let end = Self.command(.endHold, stamp: 4, name: "llm")
    #expect(try relay.apply([.command(end)], position: nil) == [.unneeded])
    let later = Self.command(.endHold, stamp: 5, name: "llm")
    #expect(try relay.apply([.command(later)], position: nil) == [.applied])
    #expect(llm.snapshot().hold == nil)
    // The registers of the fleet tell what was ended, whatever this breaker has seen.
    #expect(try hear(FleetHold(left: .seconds(60), after: 4)) == .overtaken)
    #expect(try store.delete("llm"))
    let new = try store.breaker("llm", policy: BreakerPolicy(fleetHold: true))
    try new.run {}
    #expect(try hear(FleetHold(left: .seconds(60), after: 4)) == .overtaken)
    #expect(try hear(FleetHold(left: .seconds(60), after: 5)) == .applied)
    try new.reset(scope: .fleet)
    #expect(try hear(FleetHold(left: .seconds(90), after: 5)) == .overtaken)
    #expect(try relay.pendingCommands().map(\.command.action) == [.reset])
    #expect(try new.endHold(scope: .fleet) == false)
    #expect(try relay.pendingCommands().map(\.command.action) == [.reset, .endHold])
    #expect(try store.fleetCommands(to: "llm").map(\.aspect).sorted() == ["hold", "state"])
  }

  @Test func `a remembered command from before the latest local change is not needed`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let api = try store.breaker("api")
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    try api.trip()
    stage.clock.advance(by: .seconds(10))
    #expect(
      try relay.apply(
        [
          .remembered(Self.command(.reset, stamp: 1, age: .seconds(11))),
          .remembered(Self.command(.force(.observe, for: .seconds(5)), stamp: 2, age: .seconds(9))),
          .remembered(Self.command(.reset, stamp: 3, age: .seconds(9))),
        ], position: nil) == [.unneeded, .expired, .applied])
    #expect(api.state == .closed)
    #expect(api.snapshot().mode == .automatic)
    // It is recorded all the same, so that it never applies.
    #expect(try relay.commands().map(\.stamp) == [2, 3])
  }

  @Test func `a mode or a policy makes the breaker, and nothing else does`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let actions: [(String, FleetCommand.Action, FleetVerdict)] = [
      ("a", .force(.forcedOpen, for: nil), .applied),
      ("b", .policy(set: [.probes: "2"], unset: []), .applied),
      ("c", .force(.automatic, for: nil), .noBreaker), ("d", .reset, .noBreaker),
      ("e", .policy(set: [:], unset: [.probes]), .noBreaker),
      ("f", .force(.forcedOpen, for: .zero), .expired), ("g", .trip(for: nil), .noBreaker),
    ]
    let news = actions.map { FleetNews.command(Self.command($0.1, stamp: 1, name: $0.0)) }
    #expect(try relay.apply(news, position: nil) == actions.map(\.2))
    #expect(try store.names() == ["a", "b"])
    #expect(try relay.commands().map(\.name) == ["a", "b", "c", "d", "e", "f", "g"])
  }

  @Test func `unusable news is refused, and the rest applies`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let verdicts = try relay.apply(
      [
        .command(Self.command(.force(.observe, for: nil), stamp: 0)),
        .command(Self.command(.force(.observe, for: nil), stamp: .max)),
        .command(Self.command(.force(.observe, for: nil), stamp: 1, host: "")),
        .command(Self.command(.force(.observe, for: nil), stamp: 1, name: "a\nb")),
        .command(Self.command(.policy(set: [.probes: "none"], unset: []), stamp: 1)),
        .command(Self.command(.policy(set: [.within: "1m"], unset: []), stamp: 2)),
        .command(Self.command(.force(.observe, for: nil), stamp: 3)),
      ], position: nil)
    let isRefused = verdicts.map { if case .refused = $0 { true } else { false } }
    #expect(isRefused == [true, true, true, true, true, true, false])
    #expect(try store.snapshot(of: "api")?.mode == .observe)
    // News that was not valid applies together with news that makes it valid.
    let fitting = Self.command(.policy(set: [.failures: "2"], unset: []), stamp: 1)
    #expect(try relay.apply([.command(fitting)], position: nil) == [.applied])
    #expect(try store.snapshot(of: "api")?.policy.within == .seconds(60))
  }

  @Test func `a breaker that the store has no room for is refused, and the others apply`() throws {
    let stage = try Stage()
    let options = StoreOptions(maximumBreakers: 1, clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let news = ["one", "two"].map { name in
      FleetNews.command(Self.command(.force(.observe, for: nil), stamp: 1, name: name))
    }
    let verdicts = try relay.apply(
      news + [.command(Self.command(.reset, stamp: 2, name: "one"))], position: nil)
    #expect(verdicts.first == .applied)
    guard case .refused(let why) = verdicts[1] else {
      Issue.record("\(verdicts)")
      return
    }
    #expect(why.contains("full"))
    #expect(verdicts.last == .applied)
    // When there is room, it arrives again.
    #expect(try store.delete("one"))
    #expect(try relay.apply([news[1]], position: nil) == [.applied])
  }

  @Test func `a relay whose news changes nothing writes nothing`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let api = try store.breaker("api", policy: Self.policy)
    try relay.note(isConnected: true, problem: nil)
    let reset = FleetNews.command(Self.command(.reset, stamp: 1))
    _ = try relay.apply([reset], position: Self.position(1))
    let storage = SQLiteStorage(path: stage.store, clock: stage.clock.clock, program: "idle")
    try storage.open(mayCreate: false)
    let before = storage.currentFingerprint()
    try relay.note(isConnected: true, problem: nil)
    try relay.published([99], refusing: [99: "no"])
    #expect(try relay.apply([], position: nil) == [])
    #expect(try relay.apply([reset], position: Self.position(2)) == [.overtaken])
    #expect(
      try relay.apply([.suspicion(name: "api", hosts: 1)], position: Self.position(3))
        == [.unneeded])
    #expect(storage.currentFingerprint() == before)
    #expect(try store.fleetStanding()?.position == Self.position(1))
    // With news of another epoch, or without any, the position is what changes.
    _ = try relay.apply([], position: Self.position(4))
    #expect(try store.fleetStanding()?.position == Self.position(4))
    _ = try relay.apply([reset], position: Self.position(1, epoch: "f"))
    #expect(try store.fleetStanding()?.position == Self.position(1, epoch: "f"))
    withExtendedLifetime(api) {}
  }

  @Test
  func `a change that only the relay needs makes other processes reread one breaker, not all`()
    throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    for name in ["one", "two", "three"] { try store.breaker(name).force(.observe) }
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let idle = SQLiteStorage(path: stage.store, clock: stage.clock.clock, program: "idle")
    try idle.open(mayCreate: false)
    var before = try idle.changes(since: nil)
    let writes: [() throws -> Void] = [
      { try relay.note(isConnected: true, problem: nil) },
      { _ = try relay.apply([], position: Self.position(1)) },
      { try store.breaker("one").reset(scope: .fleet) },
      { try relay.published([1]) },
      {
        _ = try relay.apply([.command(Self.command(.reset, stamp: 7, name: "no"))], position: nil)
      },
    ]
    for (index, write) in writes.enumerated() {
      try write()
      let after = try idle.changes(since: before.revision)
      #expect(after.continuity == before.continuity, "\(index)")
      #expect(after.revision == before.revision + 1, "\(index)")
      #expect(after.breakers.count == 1, "\(index)")
      before = after
    }
  }

  @Test func `commands that a clock far ahead has stamped make room for those of others`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let year = Duration.seconds(31_536_000)
    stage.clock.moveWall(by: year)
    try breaker.force(.forcedOpen, scope: .fleet)
    stage.clock.moveWall(by: .zero - year)
    let now = stage.clock.clock.wallTime.millisecondsSince1970
    let other = FleetNews.command(Self.command(.force(.observe, for: nil), stamp: now))
    #expect(try relay.apply([other], position: nil) == [.overtaken])
    #expect(try relay.pendingCommands().count == 1)

    // The command gets the stamp that it should have had, and still goes out.
    #expect(try relay.correctStamps(above: now + 86_400_000))
    #expect(try relay.pendingCommands().map(\.command.stamp) == [now])
    #expect(try relay.commands().map(\.stamp) == [now])
    #expect(try store.snapshot(of: "api")?.mode == .forcedOpen)
    #expect(try relay.apply([other], position: nil) == [.applied])
    #expect(try store.snapshot(of: "api")?.mode == .observe)
    try breaker.reset(scope: .fleet)
    #expect(try relay.pendingCommands().map(\.command.stamp).allSatisfy { $0 <= now + 86_400_000 })

    // A command that was given with the right clock was stamped too high by what was known then.
    stage.clock.moveWall(by: year)
    try breaker.force(.forcedClosed, scope: .fleet)
    stage.clock.moveWall(by: .zero - year)
    try breaker.trip(scope: .fleet)
    try breaker.force(.forcedOpen, scope: .fleet)
    #expect(try relay.correctStamps(above: now + 86_400_000))
    let pending = try relay.pendingCommands().map(\.command)
    #expect(pending.map(\.action) == [.trip(for: nil), .force(.forcedOpen, for: nil)])
    #expect(pending.allSatisfy { $0.stamp <= now + 86_400_000 })
    #expect(pending.map(\.stamp) == pending.map(\.stamp).sorted())
    #expect(try relay.commands().map(\.stamp).max() == pending.last?.stamp)

    // The part that is possible is kept.
    let known = try relay.commands()
    #expect(try !relay.correctStamps(above: now + 86_400_000))
    #expect(try relay.commands() == known && relay.pendingCommands().count == 2)
  }

  @Test func `a command that a clock far ahead has stamped stays later than what it replaced`()
    throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let now = stage.clock.clock.wallTime.millisecondsSince1970
    // The clock of its host is an hour ahead, which every host accepts.
    let other = Self.command(.force(.forcedOpen, for: nil), stamp: now + 3_600_000)
    #expect(try relay.apply([.command(other)], position: nil) == [.applied])
    let day = Duration.seconds(25 * 3_600)
    stage.clock.moveWall(by: day)
    try breaker.force(.observe, scope: .fleet)
    stage.clock.moveWall(by: .zero - day)
    #expect(try relay.hasStamps(above: now + 86_400_000))
    #expect(try relay.correctStamps(above: now + 86_400_000, knowing: [other]))
    let pending = try relay.pendingCommands().map(\.command)
    #expect(pending.map(\.stamp) == [other.stamp + 1])
    #expect(pending.allSatisfy { $0.isLater(than: other) })
    #expect(try relay.apply([.remembered(other)], position: nil) == [.overtaken])
    #expect(try store.snapshot(of: "api")?.mode == .observe)
    #expect(try !relay.hasStamps(above: now + 86_400_000))
  }

  @Test func `news about breakers that the host does not have is remembered within limits`()
    throws
  {
    let stage = try Stage()
    let options = StoreOptions(maximumBreakers: 3, clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("own")
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    func reset(_ name: String, _ stamp: Int64) -> FleetNews {
      .command(Self.command(.reset, stamp: stamp, name: name))
    }
    let verdicts = try relay.apply((1...5).map { reset("other \($0)", $0) }, position: nil)
    #expect(verdicts[..<3] == [.noBreaker, .noBreaker, .noBreaker])
    for verdict in verdicts[3...] {
      guard case .refused = verdict else { Issue.record("\(verdict)"); continue }
    }
    #expect(try relay.commands().count == 3)
    // Remembered breakers, and those of the host, are not affected.
    try breaker.trip()
    #expect(
      try relay.apply([reset("other 1", 6), reset("own", 7)], position: nil)
        == [.noBreaker, .applied])
    #expect(try relay.commands().count == 4)
  }

  @Test func `a store that takes the place of another joins the fleet with the next news`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let lineage = try store.lineage()
    #expect(lineage.utf8.count == 16)
    #expect(try stage.sharedStore().lineage() == lineage)
    for suffix in ["", "-wal", "-shm"] { Files.removeAll(stage.store + suffix) }
    #expect(try store.lineage() != lineage)
    #expect(try store.fleetStanding() == nil)
    #expect(try relay.commands() == [])
    let command = Self.command(.force(.observe, for: nil), stamp: 1)
    #expect(try relay.apply([.remembered(command)], position: Self.position(1)) == [.applied])
    #expect(try store.fleetStanding()?.host == "a")
    #expect(try store.fleetStanding()?.isRelayRunning == true)
  }
}

@_spi(Relay) import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The rules of a store that belongs to a fleet, wherever breakers are kept.
@Suite(.timeLimit(.minutes(60))) struct StoreFleetTests {
  @Test(arguments: StorageKind.allCases)
  func `a refused command leaves no breaker, no event and no other trace`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    let empty = try stage.picture()
    func refuse() {
      #expect(throws: StoreError.self) {
        try stage.step("api") { draft in
          draft.breaker.record.totals.failures += 1
          draft.note(.extended, reason: nil)
          draft.declaration = "probes=2"
          draft.give(.reset)
        }
      }
    }
    refuse()
    #expect(try stage.picture() == empty)
    try stage.step("api") { $0.breaker.record.totals.failures = 7 }
    let before = try stage.picture()
    refuse()
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `all of several steps are undone when one is refused`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.step("old") { _ in }
    let before = try stage.picture()
    #expect(throws: StoreError.self) {
      try stage.storage.transact(
        together: [
          NamedStep("old") { $0.trip(for: nil) }, NamedStep("new") { $0.trip(for: nil) },
          NamedStep("last") { $0.give(.reset) },
        ], mustBeNew: false)
    }
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `a store without a higher stamp refuses commands`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    try stage.step("api") { $0.give(.reset) }
    try stage.hear(.command(.given(.reset, to: "api", stamp: FleetCommand.highestStamp)))
    let before = try stage.picture()
    #expect(throws: StoreError.self) { try stage.step("web") { $0.give(.reset) } }
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `a command that is given waits for the relay, with the next stamp`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    for name in ["a", "b"] { try stage.step(name) { $0.give(.reset) } }
    let stamp = stage.clock.clock.wallMilliseconds
    let pending = try stage.storage.pendingOrders(limit: .max)
    try #require(pending.map(\.order.name) == ["a", "b"])
    #expect(pending.map(\.order.stamp) == [stamp, stamp + 1])
    #expect(pending.map(\.order.host) == ["a", "a"])
    #expect(try stage.storage.pendingOrders(limit: 1) == [pending[0]])
    let fleet = try #require(try stage.storage.fleet())
    #expect(fleet.stamp == stamp + 1 && fleet.waiting == 2)
    #expect(try stage.storage.fleetOrders().map(\.name) == ["a", "b"])
    try stage.hear { $0.published = [pending[0].id] }
    #expect(try stage.storage.pendingOrders(limit: .max) == [pending[1]])
  }

  @Test(arguments: StorageKind.allCases)
  func `a later command takes the place of an earlier one to the same breaker alone`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    for name in ["a", "b", "a"] { try stage.step(name) { $0.give(.reset) } }
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.order.name) == ["b", "a"])
    // A command to the state does not overtake one to the mode.
    try stage.step("a") { $0.give(.force(.observe, for: nil)) }
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.order.name) == ["b", "a", "a"])
  }

  @Test(arguments: StorageKind.allCases)
  func `a command of another host is carried out once, and not by an earlier one`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { _ in }
    let trip = FleetNews.command(.given(.trip(for: .seconds(60)), to: "api", stamp: 5))
    let first = try stage.hear(trip)
    #expect(first.verdicts == [.applied])
    #expect(first.events.map(\.name) == ["api"])
    #expect(try stage.storage.find("api")?.record.state == .open)
    #expect(try stage.events().map(\.origin) == ["b"])
    #expect(try stage.storage.fleet()?.stamp == 5)
    let before = try stage.picture()
    #expect(
      try stage.hear(trip, .command(.given(.reset, to: "api", stamp: 4))).verdicts
        == [.overtaken, .overtaken])
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `a command to a breaker that is not here is remembered, or makes it`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    let verdicts = try stage.hear(
      .command(.given(.trip(for: nil), to: "far", stamp: 5)),
      .command(.given(.force(.observe, for: nil), to: "new", stamp: 6)),
      .command(.given(.force(.observe, for: .seconds(5)), to: "late", stamp: 7, age: .seconds(9))),
      .suspicion(name: "far", hosts: 3), .recovery(name: "far", host: "b")
    ).verdicts
    #expect(verdicts == [.noBreaker, .applied, .expired, .noBreaker, .noBreaker])
    #expect(try stage.storage.list(beginningWith: "", in: nil).map(\.name) == ["new"])
    #expect(try stage.storage.fleetOrders().map(\.name) == ["far", "late", "new"])
  }

  @Test(arguments: StorageKind.allCases)
  func `a command for which there is no room is refused, and the others are carried out`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind, room: 1)
    try stage.step("api") { _ in }
    let verdicts = try stage.hear(
      .command(.given(.force(.observe, for: nil), to: "new", stamp: 5)),
      .command(.given(.force(.observe, for: nil), to: "api", stamp: 6)),
      .command(.given(.trip(for: nil), to: "far", stamp: 7))
    ).verdicts
    #expect(verdicts.count == 3 && verdicts[1] == .applied)
    for verdict in [verdicts[0], verdicts[2]] {
      guard case .refused = verdict else {
        Issue.record("\(verdict)")
        continue
      }
    }
    #expect(try stage.storage.fleetOrders().map(\.name) == ["api"])
    #expect(try stage.storage.list(beginningWith: "", in: nil).map(\.name) == ["api"])
  }

  @Test(arguments: StorageKind.allCases)
  func `the notes of a relay and its position in the stream are kept`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    let position = FleetPosition(epoch: "e", number: 1, entry: "1-0")
    try stage.hear { request in
      request.position = position
      request.note = FleetRequest.Note(isConnected: true, problem: "slow")
    }
    let fleet = try #require(try stage.storage.fleet())
    #expect(fleet.fleet == "prod" && fleet.host == "a")
    #expect(fleet.position == position)
    #expect(fleet.isConnected && fleet.problem == "slow")
    #expect(fleet.changedAtMilliseconds == stage.clock.clock.wallMilliseconds)
    // A position alone is not worth a write.
    let before = try stage.picture()
    try stage.hear(.suspicion(name: "far", hosts: 2)) { request in
      request.position = FleetPosition(epoch: "e", number: 2, entry: "2-0")
    }
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `each change to the fleet marks a breaker as changed, and nothing else does`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    for name in ["a", "b"] { try stage.step(name) { _ in } }
    var revision = try stage.revision()
    func raises(_ number: Int64, _ body: () throws -> Void) throws {
      try body()
      let now = try stage.revision()
      #expect(now == revision + number)
      revision = now
    }
    try raises(1) { try stage.hear() }
    try raises(0) { try stage.hear() }
    try raises(1) { try stage.hear(.command(.given(.trip(for: nil), to: "far", stamp: 5))) }
    try raises(1) { try stage.hear(.command(.given(.trip(for: nil), to: "a", stamp: 6))) }
    try raises(0) { try stage.hear(.command(.given(.trip(for: nil), to: "a", stamp: 6))) }
    try raises(1) { try stage.step("b") { $0.give(.reset) } }
    let id = try #require(try stage.storage.pendingOrders(limit: 1).first).id
    try raises(1) { try stage.hear { $0.published = [id] } }
    try raises(0) { try stage.hear { $0.published = [id] } }
    try raises(1) { _ = try stage.storage.leaveFleet() }
    try raises(0) { _ = try stage.storage.leaveFleet() }
  }

  @Test(arguments: StorageKind.allCases)
  func `the store of one fleet hears nothing of another one`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { _ in }
    try stage.hear()
    let before = try stage.picture()
    #expect(throws: StoreError.self) {
      try stage.hear(.command(.given(.trip(for: nil), to: "api", stamp: 5))) {
        $0.fleet = "test"
      }
    }
    #expect(try stage.picture() == before)
    #expect(try stage.storage.leaveFleet())
    #expect(try stage.storage.fleet() == nil)
    #expect(try stage.hear { $0.fleet = "test" }.verdicts.isEmpty)
  }

  @Test(arguments: StorageKind.allCases)
  func `leaving the fleet forgets its commands, told and untold`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.hear(.command(.given(.trip(for: nil), to: "far", stamp: 5)))
    try stage.step("api") { $0.give(.reset) }
    #expect(try stage.storage.leaveFleet())
    #expect(try stage.storage.fleetOrders().isEmpty)
    #expect(try stage.storage.pendingOrders(limit: .max).isEmpty)
  }

  @Test(arguments: StorageKind.allCases)
  func `stamps that the fleet cannot have are corrected, or their commands forgotten`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { _ in }
    let now = stage.clock.clock.wallMilliseconds
    let far = now + 9_000_000
    try stage.hear(.command(.given(.trip(for: nil), to: "api", stamp: far)))
    try stage.step("web") { $0.give(.reset) }
    #expect(try stage.storage.fleet()?.stamp == far + 1)
    let changes = try stage.hear { $0.latestStamp = now + 1_000 }
    #expect(changes.hasCorrected)
    #expect(try stage.storage.fleet()?.stamp == now)
    // The command of the other host is forgotten; its own has the stamp that it should have had.
    #expect(try stage.storage.fleetOrders().map(\.name) == ["web"])
    #expect(try stage.storage.fleetOrders().map(\.stamp) == [now])
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.order.stamp) == [now])
  }

  @Test(arguments: StorageKind.allCases)
  func `a transaction of a relay ends when its time is up, and the next ones do the rest in order`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    for name in ["a", "b", "c", "d"] { try stage.step(name) { $0.give(.reset) } }
    let pending = try stage.storage.pendingOrders(limit: .max)
    let stamp = try #require(pending.last).order.stamp
    let before = try stage.revision()
    let position = FleetPosition(epoch: "e", number: 9, entry: "9-0")
    var positions: [FleetPosition?] = []
    var request = FleetRequest(fleet: "prod", host: "a")
    request.turn = .zero
    request.position = position
    request.news = [
      .command(.given(.trip(for: nil), to: "a", stamp: stamp + 1)),
      .command(.given(.reset, to: "a", stamp: stamp + 2)),
      .command(.given(.trip(for: nil), to: "far", stamp: stamp + 3)),
      .suspicion(name: "b", hosts: 2),
    ]
    request.published = pending[...1].map(\.id)
    request.refusals = [pending[2].id: "too early", pending[3].id: "too early"]
    let changes = try stage.storage.carryOut(request) { _ in
      positions.append(try? stage.storage.fleet()?.position)
    }
    #expect(changes.verdicts == [.applied, .applied, .noBreaker, .unneeded])
    #expect(changes.events.map(\.name) == ["a", "a"])
    // Each of the four pieces of news, and then each command, has a transaction of its own, but the one
    // that had nothing to write left no trace.
    #expect(positions == [nil, nil, nil, nil, nil, nil, nil, position])
    #expect(try stage.revision() == before + 7)
    #expect(try stage.storage.find("a")?.record.state == .closed)
    let refusals = try stage.storage.pendingOrders(limit: .max).map(\.refusal)
    #expect(refusals == ["too early", "too early"])
  }

  @Test(arguments: StorageKind.allCases)
  func `a request that fails halfway keeps the part carried out, and can be repeated`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { _ in }
    var request = FleetRequest(fleet: "prod", host: "a")
    request.turn = .zero
    request.position = FleetPosition(epoch: "e", number: 2, entry: "2-0")
    request.news = (1...3).map { .command(.given(.trip(for: nil), to: "api", stamp: $0)) }
    var parts = 0
    #expect(throws: StoreError.self) {
      try stage.storage.carryOut(request) { _ in
        parts += 1
        // Another program makes the store one of another fleet.
        guard parts == 2 else { return }
        _ = try? stage.storage.leaveFleet()
        var other = FleetRequest(fleet: "test", host: "a")
        other.note = .init(isConnected: true, problem: nil)
        _ = try? stage.storage.carryOut(other)
      }
    }
    #expect(try stage.events().count == 2)
    #expect(try stage.storage.fleet()?.position == nil)
    _ = try stage.storage.leaveFleet()
    let again = try stage.storage.carryOut(request).verdicts
    #expect(again.last == .applied)
    #expect(try stage.storage.fleet()?.position == request.position)
  }

  @Test
  func `the cost of a command to a missing breaker does not grow with those remembered`() throws {
    let stage = try StorageStage(.file)
    let storage = try #require(stage.storage as? SQLiteStorage)
    var stamp: Int64 = 0
    var count: Int?
    /// How many pages SQLite looks at for commands to breakers that are not here.
    func pages(_ number: Int) throws -> Int {
      var request = FleetRequest(fleet: "prod", host: "a")
      request.turn = .seconds(3_600)
      request.commandCount = count
      request.news = (0..<number).map { _ in
        stamp += 1
        return .command(.given(.reset, to: "far-\(stamp)", stamp: stamp))
      }
      return try storage.countingPages { count = try storage.carryOut(request).commandCount }
    }
    _ = try pages(10)
    let first = try pages(10)
    _ = try pages(rounds(100_000))
    #expect(try storage.fleetOrders().count == count)
    let later = try pages(10)
    // A deeper tree takes a few more.
    #expect(later < 4 * first, "\(first) pages, then \(later)")
  }

  @Test(arguments: StorageKind.allCases)
  func `a command that cannot go out waits with the reason until it can`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    for name in ["api", "web"] { try stage.step(name) { $0.give(.reset) } }
    let ids = try stage.storage.pendingOrders(limit: .max).map(\.id)
    try stage.hear { $0.refusals = [ids[0]: "too early", ids[1]: "too late"] }
    #expect(try stage.storage.fleet()?.waiting == 2)
    #expect(try stage.storage.fleet()?.refused == 2)
    #expect(try stage.storage.fleet()?.refusal == "too early")
    try stage.hear {
      $0.published = [ids[0]]
      $0.refusals = [ids[1]: nil]
    }
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.refusal) == [nil])
    #expect(try stage.storage.fleet()?.refused == 0)
    #expect(try stage.storage.fleet()?.refusal == nil)
    try stage.hear { $0.published = [ids[0]] }
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.id) == [ids[1]])
  }

  @Test(arguments: StorageKind.allCases)
  func `a withdrawn command is forgotten, and its breaker stays as it is`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    try stage.step("web") { $0.give(.reset) }
    #expect(try stage.storage.withdraw(from: "api").isEmpty)
    #expect(try stage.storage.fleet()?.withdrawals == 0)
    try stage.step("api") { $0.give(.trip(for: nil)) }
    try stage.step("api") { $0.give(.policy(set: [.probes: "2"], unset: [.jitter])) }
    let trip = try #require(
      try stage.storage.pendingOrders(limit: .max).first { $0.order.action == .trip(for: nil) })
    try stage.hear { $0.published = [trip.id] }
    #expect(try stage.storage.withdraw(from: "api").map(\.action).count == 1)
    #expect(try stage.storage.fleet()?.withdrawals == 1)
    // Commands that have gone out stay known, and so do those to other breakers.
    #expect(try stage.storage.fleetOrders().map(\.action) == [.trip(for: nil), .reset])
    #expect(try stage.storage.pendingOrders(limit: .max).map(\.order.name) == ["web"])
    // If the server has got it after all, it applies like that of any other host.
    let again = FleetCommand(
      name: "api", action: .policy(set: [.probes: "2"], unset: []), author: "x", host: "a",
      stamp: trip.order.stamp + 1, age: .zero)
    #expect(try stage.hear(.command(again)).verdicts != [.overtaken])
    #expect(try stage.storage.fleetOrders().count == 3)
  }

  @Test(arguments: StorageKind.allCases)
  func `the history and the store name the giver of a command of another host`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    try stage.step("api") { $0.trip(for: nil) }
    var command = FleetCommand.given(.trip(for: nil), to: "api", stamp: 1)
    try stage.hear(.command(command))
    command = .given(.force(.observe, for: nil), to: "api", stamp: 2)
    command.verifiedUser = "ann"
    command.isProven = true
    try stage.hear(.command(command))
    var policy = FleetCommand.given(.policy(set: [.probes: "2"], unset: []), to: "api", stamp: 3)
    policy.verifiedUser = "ann"
    try stage.hear(.command(policy))
    let events = try stage.storage.history(of: "api", sinceMilliseconds: nil, limit: nil)
    let first = FleetGiver(said: "eve", host: "b")
    #expect(events.compactMap(\.giver) == [first, command.giver, policy.giver])
    #expect(try stage.storage.fleetOrders().map(\.giver) == [command.giver, policy.giver, first])
    // A change that this host makes by itself names no giver.
    try stage.step("api") { $0.give(.reset) }
    let last = try stage.storage.history(of: "api", sinceMilliseconds: nil, limit: 1)
    #expect(last.map(\.giver) == [nil] && last.map(\.origin) == [nil])
  }

  @Test(arguments: StorageKind.allCases)
  func `one relay at a time works on a store`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    #expect(try !stage.storage.isRelayHeld())
    let hold = try #require(try stage.storage.holdRelay())
    #expect(try stage.storage.isRelayHeld())
    #expect(try stage.storage.holdRelay() == nil)
    hold.release()
    #expect(try !stage.storage.isRelayHeld())
    let again = try stage.storage.holdRelay()
    #expect(again != nil)
    again?.release()
  }
}

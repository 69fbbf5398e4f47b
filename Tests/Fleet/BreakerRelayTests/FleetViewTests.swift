import BreakerRelay
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// A host's conclusions from messages of other hosts.
struct FleetViewTests {
  private var view = FleetView(host: "a")
  private let three = BreakerPolicy(fleetQuorum: .hosts(3))

  private func message(
    _ content: FleetMessage.Content, from host: String, generation: Int64 = 1,
    lineage: String = "1"
  ) -> FleetMessage {
    FleetMessage(content, name: "db", host: host, lineage: lineage, generation: generation)
  }

  @Test mutating func `other hosts make a quorum as long as their open times last`() throws {
    for (index, host) in ["b", "c", "d"].enumerated() {
      #expect(view.quorum(for: "db", policy: three, at: 1_000) == nil)
      try view.take(message(.open(for: .seconds(10 + index)), from: host), at: 1_000)
    }
    #expect(view.quorum(for: "db", policy: three, at: 10_999) == 3)
    #expect(view.quorum(for: "db", policy: three, at: 11_000) == nil)
    #expect(view.others(open: "db", at: 11_000) == 2)
    view.forgetPast(at: 13_000)
    #expect(view.suspects.isEmpty)
  }

  @Test mutating func `a host counts once, and this host does not count`() throws {
    for host in ["a", "b", "b", "b"] {
      try view.take(message(.open(for: .seconds(10)), from: host), at: 0)
    }
    #expect(view.others(open: "db", at: 0) == 1)
  }

  @Test(arguments: [FleetMessage.Content.recovered, .closed])
  mutating func `a host whose breaker is no longer open does not count`(
    content: FleetMessage.Content
  ) throws {
    try view.take(message(.open(for: .seconds(10)), from: "b", generation: 4), at: 0)
    try view.take(message(content, from: "b", generation: 3), at: 0)
    #expect(view.others(open: "db", at: 0) == 1, "an old message changes nothing")
    try view.take(message(content, from: "b", generation: 5), at: 0)
    #expect(view.others(open: "db", at: 0) == 0)
  }

  @Test mutating func `endless evidence does not fill the memory, and is refused with the reason`()
    throws
  {
    let open = FleetMessage.Content.open(for: .seconds(10))
    try view.take(message(open, from: "b"), at: 0)
    for number in 1..<FleetView.room {
      let piece = FleetView.Evidence(lineage: "1", generation: 1, until: 20_000)
      try view.take(piece, of: "lie.\(number)", from: "z")
    }
    let error = #expect(throws: Refusal.self) { try view.take(message(open, from: "c"), at: 0) }
    #expect(error?.kind == .room)
    #expect(error?.host == "c")
    #expect(error?.description.contains("100000 breakers of other hosts are open") == true)
    #expect(view.others(open: "db", at: 0) == 1)
    // Known evidence can change, and evidence that is out of date makes room.
    try view.take(message(open, from: "b", generation: 2), at: 1_000)
    #expect(view.others(open: "db", at: 10_500) == 1)
    try view.take(message(.closed, from: "b", generation: 2), at: 1_000)
    try view.take(message(open, from: "c"), at: 1_000)
    #expect(throws: Refusal.self) { try view.take(message(open, from: "d"), at: 1_000) }
    view.forgetPast(at: 20_000)
    #expect(view.suspects.isEmpty)
    try view.take(message(open, from: "d"), at: 20_000)
    #expect(view.suspects == ["db"])
  }

  @Test mutating func `a host whose store is new counts with its new breakers`() throws {
    try view.take(message(.open(for: .seconds(10)), from: "b", generation: 9), at: 0)
    try view.take(message(.closed, from: "b", generation: 1, lineage: "2"), at: 0)
    #expect(view.others(open: "db", at: 0) == 0)
  }

  @Test mutating func `a share of the hosts is rounded up, and never fewer than two`() throws {
    let third = BreakerPolicy(fleetQuorum: .share(.percent(30)))
    for host in ["b", "c"] { try view.take(message(.open(for: .seconds(9)), from: host), at: 0) }
    view.hostsSeen = 3
    #expect(view.quorum(for: "db", policy: third, at: 0) == 2)
    view.hostsSeen = 7
    #expect(view.quorum(for: "db", policy: third, at: 0) == nil)
    try view.take(message(.open(for: .seconds(9)), from: "d"), at: 0)
    #expect(view.quorum(for: "db", policy: third, at: 0) == 3)
  }

  @Test mutating func `a breaker without a quorum in its policy is never suspected`() throws {
    for host in ["b", "c", "d"] {
      try view.take(message(.open(for: .seconds(9)), from: host), at: 0)
    }
    #expect(view.quorum(for: "db", policy: BreakerPolicy(), at: 0) == nil)
  }
}

/// Messages of a host about its own breakers.
struct FleetTellingTests {
  private var view = FleetView(host: "a")

  /// An open breaker with a policy.
  private func open(_ policy: BreakerPolicy) throws -> BreakerSnapshot {
    let directory = try TemporaryDirectory()
    let store = SharedStore(path: directory.store)
    let breaker = try store.breaker("db", policy: policy)
    try breaker.trip(for: .seconds(60))
    return breaker.snapshot()
  }

  private func message(_ content: FleetMessage.Content, from host: String) -> FleetMessage {
    FleetMessage(content, name: "db", host: host, lineage: "1", generation: 1)
  }

  @Test mutating func `an opening is told unless the quorum of others is reached`() throws {
    let snapshot = try open(BreakerPolicy(fleetQuorum: .hosts(2)))
    try view.take(message(.open(for: .seconds(10)), from: "b"), at: 0)
    guard case .open(let time) = view.content(for: .opened, of: snapshot, named: "db", at: 0) else {
      Issue.record("nothing is told")
      return
    }
    #expect(time > .seconds(30) && time <= .seconds(60))
    try view.take(message(.open(for: .seconds(10)), from: "c"), at: 0)
    #expect(view.content(for: .opened, of: snapshot, named: "db", at: 0) == nil)
    #expect(view.content(for: .opened, of: snapshot, named: "db", at: 10_000) != nil)
  }

  @Test func `an opening that does not concern the fleet is not told`() throws {
    let snapshot = try open(BreakerPolicy())
    #expect(view.content(for: .opened, of: snapshot, named: "db", at: 0) == nil)
    #expect(view.content(for: .opened, of: nil, named: "db", at: 0) == nil)
    #expect(view.content(for: .closed, of: nil, named: "db", at: 0) == nil)
  }

  @Test mutating func `an opening that was told is taken back`() throws {
    view.hasTold(message(.open(for: .seconds(10)), from: "a"), at: 0)
    #expect(view.content(for: .closed, of: nil, named: "db", at: 0) == .closed)
    #expect(view.content(for: .opened, of: nil, named: "db", at: 0) == .closed)
    #expect(view.content(for: .recovered, of: nil, named: "db", at: 0) == .recovered)
    view.hasTold(message(.recovered, from: "a"), at: 0)
    #expect(view.content(for: .closed, of: nil, named: "db", at: 0) == nil)
  }

  @Test mutating func `the generation that is told never precedes an earlier one`() throws {
    let snapshot = try open(BreakerPolicy(fleetQuorum: .hosts(2)))
    #expect(view.generation(of: snapshot, named: "db") == snapshot.generation)
    #expect(view.generation(of: nil, named: "db") == 0)
    let told = FleetMessage(
      .open(for: .seconds(10)), name: "db", host: "a", lineage: "1", generation: 9)
    view.hasTold(told, at: 0)
    #expect(view.generation(of: nil, named: "db") == 9, "it was deleted")
    #expect(view.generation(of: snapshot, named: "db") == 9, "it was made again")
  }

  @Test mutating func `a recovery is told unless another host has just told one`() throws {
    let snapshot = try open(BreakerPolicy(fleetSpread: .seconds(5)))
    #expect(view.content(for: .recovered, of: snapshot, named: "db", at: 0) == .recovered)
    try view.take(message(.recovered, from: "b"), at: 1_000)
    #expect(view.content(for: .recovered, of: snapshot, named: "db", at: 5_999) == nil)
    #expect(view.content(for: .recovered, of: snapshot, named: "db", at: 6_000) == .recovered)
    // A host whose evidence is on the server always tells, so that no host counts it any longer.
    view.hasTold(message(.open(for: .seconds(10)), from: "a"), at: 1_000)
    #expect(view.content(for: .recovered, of: snapshot, named: "db", at: 5_999) == .recovered)
  }

  @Test
  mutating func `a hold is told once, until it ends at another time or came after another end`() {
    let hold = FleetHold(left: .seconds(60), age: .seconds(1))
    #expect(!view.isTold(hold, of: "db", at: 0))
    view.hasTold(message(.hold(hold), from: "a"), at: 0)
    #expect(view.isTold(hold, of: "db", at: 1_000))
    #expect(!view.isTold(hold, of: "db", at: 1_001))
    #expect(!view.isTold(hold, of: "api", at: 0))
    #expect(!view.isTold(FleetHold(left: .seconds(50)), of: "db", at: 0))
    #expect(!view.isTold(FleetHold(left: .seconds(60), after: 1), of: "db", at: 0))
    view.forgetTold()
    #expect(!view.isTold(hold, of: "db", at: 0))
  }

  @Test mutating func `a message about a hold tells nothing of the state`() throws {
    try view.take(message(.open(for: .seconds(10)), from: "b"), at: 0)
    let hold = FleetMessage.Content.hold(FleetHold(left: .seconds(60)))
    #expect(try view.take(message(hold, from: "b"), at: 0))
    #expect(view.others(open: "db", at: 0) == 1)
    view.hasTold(message(.open(for: .seconds(10)), from: "a"), at: 0)
    view.hasTold(message(hold, from: "a"), at: 0)
    #expect(view.told["db"] != nil)
    #expect(view.correction(of: message(hold, from: "a"), at: 0) == nil)
    #expect(FleetView.isAlike(FleetHold(left: .seconds(60)), FleetHold(left: .seconds(61))))
    let short = FleetHold(left: .milliseconds(2_300))
    #expect(!FleetView.isAlike(FleetHold(left: .seconds(2)), short))
  }
}

import Testing

@_spi(Relay) @testable import BreakerCore

/// How hosts agree on which of two commands is the later one.
@Suite struct FleetLedgerTests {
  private static func order(
    _ action: FleetCommand.Action, stamp: Int64, host: String = "b"
  ) -> FleetOrder {
    FleetOrder(
      FleetCommand(
        name: "api", action: action, author: "ann", host: host, stamp: stamp, age: .zero),
      at: .start)
  }

  @Test func `a later command replaces an earlier one about the same aspect`() {
    var ledger = FleetLedger()
    #expect(ledger.heard(Self.order(.trip(for: nil), stamp: 5)) == [.state])
    #expect(ledger.heard(Self.order(.reset, stamp: 4)) == [])
    #expect(ledger.heard(Self.order(.reset, stamp: 5)) == [])
    #expect(ledger.heard(Self.order(.reset, stamp: 5, host: "a")) == [])
    #expect(ledger.heard(Self.order(.reset, stamp: 5, host: "c")) == [.state])
    #expect(ledger.heard(Self.order(.force(.observe, for: nil), stamp: 1)) == [.mode])
    #expect(ledger.registers[.state]?.order.host == "c")
    #expect(ledger.registers[.state]?.aspect == .state)
    #expect(ledger.stamp == 5)
  }

  @Test func `a command keeps the seal that came last, part by part`() {
    func order(_ seals: [String: String], jitter: String = "1%") -> FleetOrder {
      FleetOrder(
        FleetCommand(
          name: "api", action: .policy(set: [.probes: "2", .jitter: jitter], unset: []),
          author: "ann", host: "b", stamp: 3, age: .zero, seals: seals), at: .start)
    }
    var ledger = FleetLedger()
    _ = ledger.heard(order([:]))
    let old = ["policy:probes": "1", "policy:jitter": "2"]
    #expect(ledger.heard(order(old)) == [])
    #expect(ledger.registers[.policy(.probes)]?.order.seals == ["policy:probes": "1"])
    #expect(ledger.registers[.policy(.jitter)]?.order.seals == ["policy:jitter": "2"])
    _ = ledger.heard(order(["policy:probes": "3"]))
    // One that says something else is another command, even if it has the same stamp.
    _ = ledger.heard(order(["policy:jitter": "4"], jitter: "5%"))
    _ = ledger.heard(order([:]))
    #expect(ledger.registers[.policy(.probes)]?.order.seals == ["policy:probes": "3"])
    #expect(ledger.registers[.policy(.jitter)]?.order.seals == ["policy:jitter": "2"])
    #expect(ledger.registers[.policy(.probes)]?.order.command(at: .start).byAspect.count == 1)
  }

  @Test func `each value of a policy is judged by itself`() {
    var ledger = FleetLedger()
    ledger.gave(Self.order(.policy(set: [.probes: "2", .jitter: "1%"], unset: []), stamp: 3))
    let heard = ledger.heard(
      Self.order(.policy(set: [.probes: "9", .openFor: "1m"], unset: [.openMax]), stamp: 2))
    #expect(Set(heard) == [.policy(.openFor), .policy(.openMax)])
    var words = AgreedWords(operator: "probes=2 jitter=1% open-max=1h")
    let first = ledger.lead(&words, because: "", at: .start)
    #expect(first.answer)
    #expect(words.operator == "open-for=1m jitter=1% probes=2")
    let second = ledger.lead(&words, because: "", at: .start)
    #expect(!second.answer)
    #expect(
      ledger.registers[.policy(.probes)]?.order.action == .policy(set: [.probes: "2"], unset: []))
  }

  @Test func `a value that does not fit waits for the one that makes it fit`() {
    var ledger = FleetLedger()
    var words = AgreedWords()
    let within = Self.order(.policy(set: [.within: "1m"], unset: []), stamp: 2)
    _ = ledger.heard(within)
    let early = ledger.lead(&words, because: "", at: .start)
    #expect(!early.answer)
    #expect(ledger.isWaiting(for: within))
    #expect(!ledger.isWaiting(for: Self.order(.reset, stamp: 2)))
    let both = Self.order(.policy(set: [.failures: "3", .within: "1s"], unset: []), stamp: 1)
    _ = ledger.heard(both)
    let step = ledger.lead(&words, because: "why", at: .start)
    #expect(step.events.map(\.reason) == ["why"])
    #expect(words.operator == "failures=3 within=1m")
    #expect(!ledger.isWaiting(for: within))
    #expect(!ledger.isWaiting(for: both))
  }

  @Test func `of two commands that do not fit together a host follows the later one`() {
    var ledger = FleetLedger()
    var words = AgreedWords()
    let two = Self.order(.policy(set: [.openFor: "1h"], unset: []), stamp: 1)
    let one = Self.order(.policy(set: [.openMax: "1m"], unset: []), stamp: 2)
    for order in [two, one] {
      _ = ledger.heard(order)
      _ = ledger.lead(&words, because: "", at: .start)
    }
    #expect(words.operator == "open-max=1m")
    #expect(ledger.isWaiting(for: two))
    #expect(!ledger.isWaiting(for: one))
  }

  @Test func `commands that do not fit together leave an operator's later values alone`() {
    var ledger = FleetLedger()
    var words = AgreedWords()
    ledger.gave(Self.order(.policy(set: [.openFor: "1h", .probes: "2"], unset: []), stamp: 1))
    // An operator has set another value on this host alone.
    words.operator = "open-for=1h probes=5"
    _ = ledger.heard(Self.order(.policy(set: [.openMax: "1m"], unset: []), stamp: 2))
    _ = ledger.lead(&words, because: "", at: .start)
    #expect(words.operator == "open-max=1m probes=5")
  }

  @Test func `a fleet's value leaves alone one that is valid only with a value of this host`() {
    var ledger = FleetLedger()
    ledger.gave(Self.order(.policy(set: [.failures: "3"], unset: []), stamp: 1))
    // An operator has set the other value on this host alone.
    var words = AgreedWords(operator: "failures=3 within=1s")
    let unset = Self.order(.policy(set: [:], unset: [.failures]), stamp: 2)
    _ = ledger.heard(unset)
    let step = ledger.lead(&words, because: "", at: .start)
    #expect(!step.answer)
    #expect(words.operator == "failures=3 within=1s")
    #expect(ledger.isWaiting(for: unset))
  }

  @Test func `a stamp is the time, and is higher than any that was seen`() {
    func next(after stamp: Int64, at wall: Int64) -> Int64? {
      FleetLedger(stamp: stamp).nextStamp(
        at: Moment(boot: Instant(nanoseconds: 0), wallMilliseconds: wall))
    }
    #expect(next(after: 0, at: 1_800_000_000_000) == 1_800_000_000_000)
    #expect(next(after: 1_800_000_000_000, at: 1_800_000_000_000) == 1_800_000_000_001)
    #expect(next(after: 1_800_000_000_000, at: 7) == 1_800_000_000_001)
    #expect(next(after: -4, at: -9) == 1)
    #expect(next(after: 0, at: .max) == FleetCommand.highestStamp)
    #expect(next(after: FleetCommand.highestStamp - 1, at: 7) == FleetCommand.highestStamp)
    #expect(next(after: FleetCommand.highestStamp, at: 7) == nil)
  }

  @Test(arguments: Seed.all)
  func `hosts agree in the end, even if commands are reordered, repeated or lost`(
    seed: UInt64
  ) {
    var fleet = LedgerWalk(seed: seed)
    for _ in 0..<60 { fleet.step() }
    fleet.resynchronize()
    for host in fleet.hosts.dropFirst() {
      #expect(host.orders == fleet.hosts[0].orders, "seed \(seed)")
      #expect(host.words == fleet.hosts[0].words, "seed \(seed)")
      #expect(host.ledger.stamp == fleet.hosts[0].ledger.stamp, "seed \(seed)")
    }
    // A host that hears everything again changes nothing.
    let before = fleet.hosts
    fleet.resynchronize()
    #expect(fleet.hosts == before, "seed \(seed)")
  }
}

/// Hosts of a fleet that give commands and hear of them late, twice or not at all.
private struct LedgerWalk {
  struct Host: Equatable {
    let name: String
    var ledger = FleetLedger()
    var words = AgreedWords()

    /// The commands that were told to this host and have yet to arrive.
    var underWay: [FleetOrder] = []

    init(name: String) { self.name = name }

    var orders: [FleetAspect: FleetOrder] { ledger.registers.mapValues(\.order) }

    /// Hears a command, and follows what it says of the policy as a store does.
    mutating func hear(_ order: FleetOrder) {
      let news = ledger.heard(order)
      if news.contains(where: \.isPolicy) {
        _ = ledger.lead(&words, because: "", at: .start)
      }
    }
  }

  var random: SplitMix
  var hosts: [Host] = ["a", "b", "c", "d"].map { Host(name: $0) }

  init(seed: UInt64) { random = SplitMix(seed: seed) }

  mutating func step() {
    let index = Int.random(in: 0..<hosts.count, using: &random)
    if random.oneIn(3) { give(on: index) } else { deliver(to: index) }
  }

  private mutating func give(on index: Int) {
    // The clocks of the hosts disagree.
    let now = Moment(boot: Moment.start.boot, wallMilliseconds: random.pick([1, 20, 40]))
    guard let stamp = hosts[index].ledger.nextStamp(at: now) else { return }
    let action = drawAction()
    if case .policy(let values, let keys) = action {
      var words = hosts[index].words
      // A host gives no command that it could not follow itself.
      guard (try? words.overridden(set: values, unset: keys, at: .start)) != nil else { return }
      hosts[index].words = words
    }
    let order = FleetOrder(
      FleetCommand(
        name: "api", action: action, author: "ann", host: hosts[index].name, stamp: stamp,
        age: .zero), at: .start)
    hosts[index].ledger.gave(order)
    for other in hosts.indices where other != index {
      // Some are lost, and some come twice.
      for _ in 0..<random.pick([0, 1, 1, 1, 2]) { hosts[other].underWay.append(order) }
    }
  }

  private mutating func deliver(to index: Int) {
    guard !hosts[index].underWay.isEmpty else { return }
    let which = Int.random(in: 0..<hosts[index].underWay.count, using: &random)
    hosts[index].hear(hosts[index].underWay.remove(at: which))
  }

  private mutating func drawAction() -> FleetCommand.Action {
    switch Int.random(in: 0..<6, using: &random) {
    case 0: .trip(for: nil)
    case 1: .reset
    case 2: .force(random.pick(BreakerMode.allCases), for: nil)
    // These fit only together, so a host that hears of one first has to wait for the other.
    case 3: .policy(set: [.failures: "3", .within: random.pick(["1s", "2s"])], unset: [])
    case 4: .policy(set: [.within: random.pick(["3s", "4s"])], unset: [])
    default: .policy(set: [.openFor: random.pick(["1s", "2s"])], unset: [.failures, .within])
    }
  }

  /// Every host hears of the latest commands that every host knows, in any order.
  mutating func resynchronize() {
    let known = hosts.flatMap { Array($0.orders.values) }
    for index in hosts.indices {
      hosts[index].underWay = []
      for order in known.shuffled(using: &random) { hosts[index].hear(order) }
    }
  }
}

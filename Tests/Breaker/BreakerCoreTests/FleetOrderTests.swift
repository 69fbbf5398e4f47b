@_spi(Relay) @testable import BreakerCore
import Testing

/// Commands that were given on another host.
@Suite struct FleetOrderTests {
  private typealias Action = FleetCommand.Action

  private static func command(
    _ action: FleetCommand.Action, age: Duration = .zero, stamp: Int64 = 1, host: String = "b",
    name: String = "api"
  ) -> FleetCommand {
    FleetCommand(
      name: name, action: action, reason: "why", author: "cbctl (pid 7)", host: host, stamp: stamp,
      age: age)
  }

  @discardableResult
  private static func obey(
    _ action: FleetCommand.Action, age: Duration = .zero, isRemembered: Bool = false,
    in bench: inout Bench
  ) -> FleetVerdict {
    let order = FleetOrder(command(action, age: age), at: bench.now)
    let step = bench.record.obeyed(
      order, isRemembered: isRemembered, at: bench.now, policy: bench.policy, jitter: 0.5)
    bench.events += step.events
    return step.answer
  }

  @Test func `a trip from another host opens the breaker for what is left of its time`() {
    var bench = Bench()
    #expect(Self.obey(.trip(for: .seconds(60)), age: .seconds(20), in: &bench) == .applied)
    #expect(bench.openRemaining == .seconds(40))
    #expect(bench.record.openNanoseconds == 40_000_000_000)
    #expect(bench.record.isOpenTimeNamed)
    #expect(bench.events.map(\.origin) == ["b"])
    #expect(bench.events.map(\.reason) == ["why"])
  }

  @Test(arguments: [Duration.seconds(30), .seconds(31)])
  func `a trip whose time is over changes nothing`(age: Duration) {
    for time in [nil, Duration.seconds(30)] {
      var bench = Bench()
      let before = bench.record
      #expect(Self.obey(.trip(for: time), age: age, in: &bench) == .expired)
      #expect(bench.record == before)
      #expect(bench.events.isEmpty)
    }
  }

  @Test func `a reset from another host closes the breaker`() {
    var bench = Bench()
    bench.trip()
    #expect(Self.obey(.reset, age: .seconds(9), in: &bench) == .applied)
    #expect(bench.state == .closed)
    #expect(bench.events.last?.origin == "b")
  }

  @Test func `a remembered reset gives way to a later change of the state`() {
    var bench = Bench()
    bench.trip()
    bench.advance(by: .seconds(10))
    let before = bench.record
    #expect(Self.obey(.reset, age: .seconds(10), isRemembered: true, in: &bench) == .unneeded)
    #expect(bench.record == before)
    let age = Duration.seconds(10) - .nanosecond
    #expect(Self.obey(.reset, age: age, isRemembered: true, in: &bench) == .applied)
    // From the stream, it is in time however old it is.
    bench.trip()
    #expect(Self.obey(.reset, age: .seconds(20), in: &bench) == .applied)
    var unknown = Bench()
    #expect(unknown.record.tally.since == nil)
    #expect(Self.obey(.reset, age: .seconds(9), isRemembered: true, in: &unknown) == .applied)
  }

  @Test func `a remembered trip whose time is not over applies whatever has happened since`() {
    var bench = Bench()
    bench.reset()
    let action = Action.trip(for: .seconds(600))
    #expect(Self.obey(action, age: .seconds(60), isRemembered: true, in: &bench) == .applied)
    #expect(bench.openRemaining == .seconds(540))
  }

  @Test func `a mode from another host holds for what is left of its time`() {
    var bench = Bench()
    let action = Action.force(.forcedOpen, for: .seconds(60))
    #expect(Self.obey(action, age: .seconds(45), in: &bench) == .applied)
    #expect(bench.record.mode.until == bench.now.boot.advanced(by: 15_000_000_000))
    #expect(bench.record.mode.setBy == "cbctl (pid 7) on b (unverified)")
    #expect(bench.record.mode.reason == "why")
    #expect(Self.obey(.force(.observe, for: nil), age: .seconds(99), in: &bench) == .applied)
    #expect(bench.record.mode.until == nil)
    #expect(Self.obey(.force(.automatic, for: nil), in: &bench) == .applied)
    #expect(bench.record.mode == ModeSetting())
    #expect(bench.events.map(\.arrow).last == "mode:observe>automatic")
  }

  @Test func `a mode that is over ends the one that it would have replaced`() {
    let action = Action.force(.forcedClosed, for: .seconds(10))
    var bench = Bench()
    #expect(Self.obey(action, age: .seconds(10), in: &bench) == .expired)
    bench.set(.forcedOpen)
    bench.advance(by: .seconds(20))
    #expect(Self.obey(action, age: .seconds(21), in: &bench) == .expired)
    #expect(bench.record.mode.mode == .forcedOpen)
    #expect(Self.obey(action, age: .seconds(20), in: &bench) == .applied)
    #expect(bench.record.mode == ModeSetting())
    #expect(bench.events.last?.reason == "the mode has expired")
    #expect(bench.events.last?.origin == "b")
  }

  @Test func `a command to the policy changes nothing in the record`() {
    var bench = Bench()
    let before = bench.record
    #expect(Self.obey(.policy(set: [.probes: "2"], unset: []), in: &bench) == .unneeded)
    #expect(bench.record == before)
  }

  @Test func `a command that no host can use says why`() throws {
    func complaint(_ command: FleetCommand) -> String? {
      FleetOrder(command, at: .start).complaint
    }
    #expect(complaint(Self.command(.reset)) == nil)
    #expect(complaint(Self.command(.reset, stamp: FleetCommand.highestStamp)) == nil)
    for stamp in [.min, -1, 0, FleetCommand.highestStamp + 1] as [Int64] {
      #expect(try #require(complaint(Self.command(.reset, stamp: stamp))).contains("stamp"))
    }
    #expect(try #require(complaint(Self.command(.reset, name: ""))).contains("name"))
    #expect(try #require(complaint(Self.command(.reset, host: "a\n"))).contains("host"))
    #expect(complaint(Self.command(.policy(set: [.probes: "2"], unset: [.jitter]))) == nil)
    #expect(complaint(Self.command(.policy(set: [:], unset: [.jitter]))) == nil)
    #expect(complaint(Self.command(.policy(set: [:], unset: []))) != nil)
    #expect(complaint(Self.command(.policy(set: [.probes: "2 x"], unset: []))) != nil)
  }

  @Test func `the texts of a command are cut to the length that a store keeps`() {
    var command = Self.command(.reset)
    command.reason = String(repeating: "r", count: 5_000)
    command.author = String(repeating: "a", count: 5_000)
    let order = FleetOrder(command, at: .start)
    #expect(order.reason?.utf8.count == OutsideText.longestError)
    #expect(order.author.utf8.count == OutsideText.longestName)
  }

  @Test func `the age of a command grows, even over a reboot, and is never negative`() {
    var now = Moment.start
    let order = FleetOrder(Self.command(.reset, age: .seconds(5)), at: now)
    #expect(order.age(at: now) == .seconds(5))
    now.boot = now.boot.advanced(by: 3_000_000_000)
    now.wallMilliseconds += 3_000
    #expect(order.command(at: now).age == .seconds(8))
    let later = Moment(
      boot: Instant(nanoseconds: 1_000), wallMilliseconds: now.wallMilliseconds + 10_000)
    let carried = order.carriedOver(to: later)
    #expect(carried.age(at: later) == .seconds(18))
    let setBack = Moment(boot: Instant(nanoseconds: 0), wallMilliseconds: 0)
    #expect(order.carriedOver(to: setBack).age(at: setBack) == .zero)
    #expect(FleetOrder(Self.command(.reset, age: .seconds(-9)), at: now).age(at: now) == .zero)
  }

  @Test func `a command is overtaken by a later one about all that it says`() {
    func order(_ action: FleetCommand.Action, stamp: Int64) -> FleetOrder {
      FleetOrder(Self.command(action, stamp: stamp), at: .start)
    }
    let both = Action.policy(set: [.probes: "2"], unset: [.jitter])
    let one = Action.policy(set: [.probes: "3"], unset: [])
    #expect(order(.trip(for: nil), stamp: 1).isOvertaken(by: order(.reset, stamp: 2)))
    #expect(!order(.trip(for: nil), stamp: 2).isOvertaken(by: order(.reset, stamp: 1)))
    #expect(!order(.reset, stamp: 1).isOvertaken(by: order(.force(.observe, for: nil), stamp: 2)))
    #expect(order(one, stamp: 1).isOvertaken(by: order(both, stamp: 2)))
    #expect(!order(both, stamp: 1).isOvertaken(by: order(one, stamp: 2)))
  }

  @Test func `a command recognizes its parts, and no other command`() {
    let whole = FleetOrder(
      Self.command(.policy(set: [.probes: "2"], unset: [.jitter]), stamp: 7), at: .start)
    for register in FleetLedger(stamp: 0).taking(whole) {
      #expect(register.order.isPart(of: whole))
    }
    #expect(whole.isPart(of: whole))
    #expect(!FleetOrder(Self.command(.reset, stamp: 8), at: .start).isPart(of: whole))
  }

  @Test func `a command to the state is forgotten after thirty days, or when its time is over`() {
    func isForgotten(_ action: FleetCommand.Action, after age: Duration) -> Bool {
      FleetOrder(Self.command(action, age: age), at: .start).isForgotten(at: .start)
    }
    let month = Duration.seconds(30 * 86_400)
    for action in [Action.reset, .trip(for: nil), .trip(for: .seconds(60))] {
      #expect(!isForgotten(action, after: month))
      #expect(isForgotten(action, after: month + .nanosecond))
    }
    #expect(!isForgotten(.trip(for: month * 2), after: month + .nanosecond))
    #expect(!isForgotten(.force(.observe, for: nil), after: month * 9))
    #expect(!isForgotten(.policy(set: [.probes: "2"], unset: []), after: month * 9))
  }

  @Test func `only a command that has something to keep makes a breaker`() {
    let made: [FleetCommand.Action] = [
      .force(.forcedOpen, for: nil), .policy(set: [.probes: "2"], unset: []),
    ]
    let others: [FleetCommand.Action] = [
      .trip(for: nil), .reset, .force(.automatic, for: nil), .policy(set: [:], unset: [.probes]),
    ]
    for action in made { #expect(FleetOrder(Self.command(action), at: .start).makesBreaker) }
    for action in others { #expect(!FleetOrder(Self.command(action), at: .start).makesBreaker) }
  }

  @Test func `a command is split into one command for each aspect`() {
    let action = Action.policy(set: [.probes: "2", .jitter: "5%"], unset: [.jitter, .openMax])
    let parts = Self.command(action, age: .seconds(3)).byAspect
    #expect(
      parts.mapValues(\.action) == [
        "policy:probes": .policy(set: [.probes: "2"], unset: []),
        "policy:jitter": .policy(set: [.jitter: "5%"], unset: []),
        "policy:open-max": .policy(set: [:], unset: [.openMax]),
      ])
    #expect(parts.values.allSatisfy { $0.age == .seconds(3) && $0.stamp == 1 })
    #expect(Array(Self.command(.reset).byAspect.keys) == ["state"])
    let mode = Self.command(.force(.observe, for: nil))
    #expect(mode.byAspect == ["mode": mode])
  }

  @Test func `a position says where in which stream a relay has read`() {
    let position = FleetPosition(epoch: "e", number: 7, entry: "7-0")
    #expect(position != FleetPosition(epoch: "f", number: 7, entry: "7-0"))
  }

  @Test func `the name of an aspect is read back`() {
    let aspects = [FleetAspect.state, .mode] + PolicyKey.allCases.map { .policy($0) }
    for aspect in aspects { #expect(FleetAspect(text: aspect.text) == aspect) }
    for text in ["", "policy:", "policy:nothing", "modes"] {
      #expect(FleetAspect(text: text) == nil)
    }
  }
}

/// Commands whose stamps come from a clock far ahead, and their correction.
struct FleetCorrectionTests {
  /// The wall clock is at 100, and the other one at a second.
  private static let now = Moment(boot: Instant(nanoseconds: 1_000_000_000), wallMilliseconds: 100)

  /// A command that was given so many milliseconds ago, when the wall clock showed a time.
  private func order(
    _ stamp: Int64, from host: String = "a", given time: Int64, ago passed: Int64 = 0
  ) -> FleetOrder {
    let boot = Self.now.boot.advanced(by: -passed * 1_000_000)
    return FleetOrder(
      FleetCommand(
        name: "db", action: .reset, author: "x", host: host, stamp: stamp, age: .zero),
      givenAt: Moment(boot: boot, wallMilliseconds: time))
  }

  private func correction(
    _ orders: [FleetOrder], knowing others: [FleetOrder] = []
  ) -> FleetCorrection {
    FleetCorrection(orders, knowing: others, above: 100, of: "a", at: Self.now)
  }

  @Test func `a command stays later than those that the fleet had when it was given`() {
    // The host knew the first of the others, whose clock was fast, and kept only its own command.
    let orders = [order(900, given: 900, ago: 30), order(901, given: 901, ago: 10)]
    let others = [
      order(85, from: "b", given: 85, ago: 31), order(95, from: "c", given: 95, ago: 20),
      order(98, from: "c", given: 98, ago: 5), order(950, from: "d", given: 1, ago: 90),
    ]
    let correction = correction(orders, knowing: others)
    #expect(orders.map { correction.corrected($0)?.stamp } == [86, 96])
    #expect(correction.highest == 98)
    // Without them it would lose to what it was meant to replace.
    #expect(self.correction(orders).corrected(orders[0])?.stamp == 70)
  }

  @Test func `a command that was given with the wrong clock is dated by the other one`() {
    let orders = [
      order(50, given: 50), order(900, given: 900, ago: 30), order(901, given: 901, ago: 10),
    ]
    let correction = correction(orders)
    #expect(orders.map { correction.corrected($0)?.stamp } == [nil, 70, 90])
    #expect(correction.corrected(orders[1])?.givenAt.wallMilliseconds == 70)
    #expect(correction.corrected(orders[1])?.givenAt.boot == orders[1].givenAt.boot)
    #expect(correction.highest == 90)
  }

  @Test func `a command that was given with the right clock gets the stamp that it should have`() {
    let orders = [
      order(903, given: 80, ago: 20), order(60, given: 10, ago: 90), order(901, given: 40, ago: 60),
      order(902, given: 80, ago: 20), order(902, given: 80, ago: 20),
    ]
    let correction = correction(orders)
    #expect(correction.corrected(orders[2])?.stamp == 61)
    #expect(correction.corrected(orders[3])?.stamp == 80)
    #expect(correction.corrected(orders[4])?.stamp == 80)
    #expect(correction.corrected(orders[0])?.stamp == 81)
    #expect(correction.corrected(orders[1]) == nil)
    #expect(correction.highest == 81)
    #expect(correction.corrected(orders[0])?.givenAt == orders[0].givenAt)
  }

  @Test func `corrected commands keep their order, whatever the clocks say`() {
    let orders = [order(900, given: 900, ago: 5), order(901, given: 30, ago: 70)]
    let correction = correction(orders)
    #expect(orders.map { correction.corrected($0)?.stamp } == [95, 96])
  }

  @Test func `another host's command is forgotten at any age`() {
    let correction = correction([order(900, from: "b", given: 80)])
    #expect(correction.highest == 0)
    #expect(correction.corrected(order(900, from: "b", given: 80)) == nil)
  }

  @Test func `without wrong stamps, nothing is corrected`() {
    #expect(correction([]).highest == 0)
    #expect(correction([order(7, given: 7)]).highest == 7)
  }
}

extension FleetLedger {
  fileprivate func taking(_ order: FleetOrder) -> [FleetRegister] {
    var ledger = self
    ledger.gave(order)
    return Array(ledger.registers.values)
  }
}

import Testing

@_spi(Relay) @testable import BreakerCore

/// Holds that other hosts of a fleet were told.
@Suite struct HeardHoldTests {
  private static let minute = Duration.seconds(60)

  private static func bench(holdMax: Duration = .seconds(86_400)) -> Bench {
    Bench(BreakerPolicy(holdMax: holdMax, fleetHold: true))
  }

  @Test func `a hold of another host holds calls here, and names the host`() {
    var bench = Self.bench()
    #expect(bench.hear(FleetHold(left: Self.minute, reason: "HTTP 429")) == .applied)
    #expect(bench.rejection?.cause == .held)
    #expect(bench.rejection?.retryAfter == Self.minute)
    let hold = bench.record.holds.hold
    #expect(hold?.host == "b" && hold?.setBy == "host b" && hold?.isByHand == false)
    #expect(hold?.reason == "HTTP 429")
    #expect(bench.events.map(\.change) == [.hold(.began)])
    #expect(bench.events.first?.origin == "b")
    #expect(bench.events.first?.reason == "HTTP 429: held for 1m, told by b")
    // It is no hold of this host's calls.
    #expect(bench.record.totals.holds == 0 && bench.record.holds.unnamed == 0)
  }

  @Test func `without fleet-hold a host is not concerned`() {
    var bench = Bench()
    #expect(bench.hear(FleetHold(left: Self.minute)) == .unneeded)
    #expect(bench.record == BreakerRecord())
  }

  @Test func `after a hold of another host one call goes first too`() {
    var bench = Self.bench()
    bench.hear(FleetHold(left: Self.minute))
    bench.advance(by: Self.minute)
    let first = bench.permit()
    #expect(first?.kind == .probe)
    #expect(bench.permit() == nil)
    bench.report(.success, for: first)
    #expect(bench.permit()?.kind == .normal)
    #expect(bench.events.last?.reason == "a call succeeded, after 1m")
  }

  @Test func `the longest wins, whoever was told it`() {
    var bench = Self.bench()
    bench.hold(for: Self.minute)
    #expect(bench.hear(FleetHold(left: .seconds(59))) == .unneeded)
    #expect(bench.record.holds.hold?.host == nil)
    #expect(bench.hear(FleetHold(left: .seconds(90))) == .applied)
    #expect(bench.record.holds.hold?.host == "b" && bench.rejection?.retryAfter == .seconds(90))
    #expect(bench.hold(for: .seconds(89)) == .isShorter(than: 90_000_000_000))
    #expect(bench.record.holds.hold?.host == "b")
    // From here on it is a hold of this host, which it tells the others.
    #expect(bench.hold(for: .seconds(91)) == .holds(91_000_000_000))
    #expect(bench.record.holds.hold?.host == nil && bench.record.holds.hold?.after == 0)
    #expect(bench.events.map(\.change) == [.hold(.began)])
    #expect(bench.hear(FleetHold(left: .zero)) == .expired)
  }

  @Test func `a time beyond hold-max is cut to it, counted from when the other host was told`() {
    var bench = Self.bench(holdMax: Self.minute)
    let hold = FleetHold(left: .seconds(3_580), age: .seconds(20))
    #expect(bench.hear(hold) == .applied)
    #expect(bench.rejection?.retryAfter == .seconds(40))
    #expect(bench.record.holds.hold?.askedNanoseconds == 3_600_000_000_000)
    #expect(bench.events.last?.reason == "asked for 1h, held for 1m by hold-max, told by b")
    // A hold that is read again and again does not become longer.
    bench.advance(by: .seconds(30))
    #expect(bench.hear(FleetHold(left: .seconds(3_550), age: .seconds(50))) == .unneeded)
    #expect(bench.rejection?.retryAfter == .seconds(10))
    #expect(bench.hear(FleetHold(left: .seconds(3_500), age: .seconds(100))) == .unneeded)
    #expect(bench.hear(FleetHold(left: .seconds(1 << 40), age: .zero - .seconds(5))) == .applied)
    #expect(bench.rejection?.retryAfter == Self.minute)
  }

  @Test func `a hold that was ended on this host does not come back, and a later one does`() {
    for isReset in [false, true] {
      var bench = Self.bench()
      bench.hear(FleetHold(left: Self.minute))
      bench.advance(by: .seconds(10))
      if isReset { bench.reset() } else { bench.endHold() }
      let again = FleetHold(left: .seconds(50), age: .seconds(10))
      #expect(bench.hear(again) == .overtaken)
      #expect(bench.permit() != nil)
      bench.advance(by: .seconds(1))
      #expect(bench.hear(FleetHold(left: .seconds(50), age: .milliseconds(999))) == .applied)
      // An end in the future is that of a wrong clock.
      bench.endHold()
      bench.now.wallMilliseconds -= 5_000
      #expect(bench.hear(FleetHold(left: .seconds(50), age: .seconds(1))) == .applied)
    }
  }

  @Test func `a hold that was told before a command to end holds holds no call after it`() {
    var bench = Self.bench()
    #expect(bench.hear(FleetHold(left: Self.minute, after: 6), knowing: 7) == .overtaken)
    #expect(bench.record.holds.hold == nil)
    // Its host knew the command, and was told again.
    #expect(bench.hear(FleetHold(left: Self.minute, after: 7), knowing: 7) == .applied)
    #expect(bench.record.holds.hold?.after == 7)
  }

  @Test func `a command to end holds ends those that were told before it, and no later one`() {
    var bench = Self.bench()
    bench.hold(for: Self.minute)
    #expect(bench.obeyEnd(stamp: 7) == .applied)
    #expect(bench.record.holds.hold == nil)
    #expect(bench.events.last?.change == .hold(.ended))
    #expect(bench.events.last?.origin == "b" && bench.events.last?.giver?.said == "cbctl")
    #expect(bench.obeyEnd(stamp: 8) == .unneeded)
    bench.hear(FleetHold(left: Self.minute, after: 8))
    #expect(bench.obeyEnd(stamp: 8) == .unneeded)
    #expect(bench.obeyEnd(stamp: 9) == .applied)
    // A command that comes late does not end what was told long after it was given.
    bench.advance(by: Self.minute)
    bench.hold(for: Self.minute)
    bench.advance(by: .seconds(20))
    #expect(bench.obeyEnd(stamp: 10, age: .seconds(21), isRemembered: true) == .unneeded)
    #expect(bench.obeyEnd(stamp: 11, age: .seconds(20), isRemembered: true) == .applied)
  }

  @Test func `a call that was under way before a command to end holds brings none`() {
    var bench = Self.bench()
    let permit = bench.permit()
    bench.hold(for: Self.minute)
    bench.obeyEnd(stamp: 7)
    bench.report(.hold(for: Self.minute), for: permit)
    #expect(bench.record.holds.hold == nil)
    // Its time is not noted as that of an end on this host.
    #expect(
      bench.hear(FleetHold(left: Self.minute, age: .seconds(5), after: 7), knowing: 7) == .applied)
  }

  @Test func `hosts remember the end of holds for as long as a hold can last`() {
    func isForgotten(days: Int64) -> Bool {
      FleetCommand(
        name: "api", action: .endHold, author: "x", host: "b", stamp: 1,
        age: .seconds(days * 86_400)
      ).isForgotten
    }
    #expect(!isForgotten(days: 365) && isForgotten(days: 366))
    let command = FleetCommand(
      name: "api", action: .endHold, author: "x", host: "b", stamp: 1, age: .zero)
    #expect(command.byAspect == ["hold": command])
    #expect(FleetAspect(text: "hold") == .hold && FleetAspect.hold.text == "hold")
    #expect(!FleetOrder(command, at: .start).makesBreaker)
    let actions: [FleetCommand.Action] = [.endHold, .reset, .trip(for: nil)]
    #expect(actions.map(\.endsHolds) == [true, true, false])
  }
}

extension Bench {
  /// The rejection of the next call, which changes nothing.
  fileprivate var rejection: Rejection? {
    var copy = self
    return copy.request().rejection
  }

  /// Tells the breaker of a hold of another host.
  @discardableResult fileprivate mutating func hear(
    _ hold: FleetHold, knowing end: Int64 = 0
  ) -> FleetVerdict {
    settle()
    let step = record.heard(hold, on: "b", after: end, at: now, policy: policy)
    events += step.events
    return step.answer
  }

  @discardableResult fileprivate mutating func obeyEnd(
    stamp: Int64, age: Duration = .zero, isRemembered: Bool = false
  ) -> FleetVerdict {
    settle()
    let command = FleetCommand(
      name: "api", action: .endHold, author: "cbctl", host: "b", stamp: stamp, age: age)
    let step = record.obeyed(
      FleetOrder(command, at: now), isRemembered: isRemembered, at: now, policy: policy,
      jitter: jitter)
    events += step.events
    return step.answer
  }
}

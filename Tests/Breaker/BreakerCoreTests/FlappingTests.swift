import Testing

@_spi(Command) @testable import BreakerCore

/// When a breaker flaps.
@Suite struct FlappingTests {
  /// A breaker whose outages last a second and begin at these times, in seconds.
  private static func bench(_ seconds: [Int]) -> Bench {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    var last = 0
    for second in seconds {
      bench.advance(by: .seconds(second - last))
      bench.call(.failure())
      bench.advance(by: .seconds(1))
      bench.call(.success)
      last = second + 1
    }
    return bench
  }

  private static func flaps(_ bench: Bench) -> Bool { bench.look.isFlapping(at: bench.now.boot) }

  @Test func `a breaker flaps with its fifth outage within an hour`() {
    #expect(!Self.flaps(Bench()))
    #expect(!Self.flaps(Self.bench([0, 10, 20, 30])))
    #expect(Self.flaps(Self.bench([0, 10, 20, 30, 40])))
    #expect(Self.flaps(Self.bench([0, 900, 1_800, 2_700, 3_598])))
    #expect(!Self.flaps(Self.bench([0, 900, 1_800, 2_700, 3_599])))
  }

  @Test func `a breaker no longer flaps once the fifth outage from the end is an hour old`() {
    var bench = Self.bench([0, 10, 20, 30, 40, 50])
    #expect(bench.record.outageTimes.count == Flapping.outages)
    bench.advance(by: .seconds(10 + 3_600 - 51) - .nanosecond)
    #expect(Self.flaps(bench))
    bench.advance(by: .nanosecond)
    #expect(!Self.flaps(bench))
  }

  @Test func `a breaker that stays open does not flap, however many probes fail`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    for _ in 1...9 {
      bench.call(.failure())
      bench.advance(by: .seconds(1))
    }
    #expect(bench.record.trips == 9)
    #expect(!Self.flaps(bench))
  }

  @Test func `only what rejects calls counts, so an observed breaker flaps when its mode ends`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    bench.set(.observe)
    for _ in 1...9 {
      bench.trip()
      bench.reset()
    }
    #expect(bench.record.outageTimes.isEmpty)
    bench.trip()
    for _ in 1...4 {
      bench.set(.automatic)
      bench.set(.observe)
    }
    #expect(!Self.flaps(bench))
    bench.set(.observe, for: .seconds(5))
    bench.advance(by: .seconds(5))
    // No call was made since the mode ended.
    #expect(bench.record.outageTimes.count == 4)
    #expect(Self.flaps(bench))
  }

  @Test func `a suspicion counts once a probe has confirmed it`() {
    var bench = Bench(
      BreakerPolicy(maxFailures: 1, openFor: .seconds(1), fleetQuorum: .hosts(2)))
    let isSuspected = bench.suspect(by: 2)
    #expect(isSuspected)
    #expect(bench.record.outageTimes.isEmpty)
    bench.call(.failure())
    #expect(bench.record.outageTimes == [bench.now.boot])
  }

  @Test func `a reboot forgets when outages began`() {
    let bench = Self.bench([0, 10, 20, 30, 40])
    let now = Moment(boot: Instant(nanoseconds: 5), wallMilliseconds: bench.now.wallMilliseconds)
    #expect(bench.record.carriedOver(to: now).outageTimes.isEmpty)
  }

  @Test func `an outage that a false clock put into the future does not count`() {
    var bench = Self.bench([0, 10, 20, 30, 40])
    let away = bench.now.boot.advanced(by: 86_400_000_000_000)
    bench.record.outageTimes[4] = away
    let wasFalse = bench.record.correctFalseTimes(at: bench.now.boot)
    #expect(wasFalse)
    #expect(bench.record.outageTimes.count == 4)
    #expect(!Self.flaps(bench))
  }
}

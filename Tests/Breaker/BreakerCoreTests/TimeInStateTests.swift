import Testing

@testable import BreakerCore

/// How long a breaker was in each state, and how often it entered each.
@Suite struct TimeInStateTests {
  /// A breaker that has just been created.
  private static func bench(_ policy: BreakerPolicy = BreakerPolicy()) -> Bench {
    var bench = Bench(policy)
    bench.record.tally.since = bench.now.boot
    return bench
  }

  private static func seconds(_ bench: Bench) -> [Int64] {
    let times = bench.record.tally.nanoseconds(in: bench.state, at: bench.now.boot)
      .map { $0 / 1_000_000_000 }
    return [times.closed, times.open, times.halfOpen]
  }

  private static func entries(_ bench: Bench) -> [Int64] {
    let entries = bench.record.tally.entries
    return [entries.closed, entries.open, entries.halfOpen]
  }

  @Test func `the tally holds the time in each state and how often each was entered`() {
    var bench = Self.bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(30)))
    bench.advance(by: .seconds(100))
    bench.call(.failure())
    #expect(Self.seconds(bench) == [100, 0, 0])
    bench.advance(by: .seconds(40))
    // The open time is over, but no call was made.
    #expect(Self.seconds(bench) == [100, 40, 0])
    let probe = bench.permit()
    bench.advance(by: .seconds(3))
    #expect(Self.seconds(bench) == [100, 40, 3])
    bench.report(.failure(), for: probe)
    bench.advance(by: .seconds(30))
    bench.call(.success)
    bench.advance(by: .seconds(7))
    #expect(Self.seconds(bench) == [107, 70, 3])
    #expect(Self.entries(bench) == [1, 2, 2])
    #expect(bench.record.tally.nanosecondsInState(at: bench.now.boot) == 7_000_000_000)
  }

  @Test func `the tally ignores everything that does not change the state`() {
    var bench = Self.bench()
    bench.calls(3, .failure())
    bench.call(.success)
    bench.set(.forcedOpen, for: .seconds(1))
    bench.advance(by: .seconds(9))
    bench.call(.success)
    #expect(bench.record.tally.nanoseconds == PerState(repeating: 0))
    #expect(bench.record.tally.entries == PerState(repeating: 0))
    #expect(Self.seconds(bench) == [9, 0, 0])
  }

  @Test func `the tally ignores a change to the same state and survives a reset`() {
    var bench = Self.bench()
    bench.advance(by: .seconds(1))
    bench.reset()
    bench.advance(by: .seconds(1))
    bench.trip()
    bench.advance(by: .seconds(2))
    bench.trip()
    bench.advance(by: .seconds(3))
    bench.reset()
    #expect(Self.seconds(bench) == [2, 5, 0])
    #expect(Self.entries(bench) == [1, 1, 0])
  }

  @Test func `the tally never goes back and never loses time, whatever happens`() {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SplitMix(seed: seed)
    let policy = BreakerPolicy(
      maxFailures: 2, openFor: .seconds(5), probes: 2, probeTimeout: .seconds(4))
    var bench = Self.bench(policy)
    let start = bench.now.boot
    var before = bench.record.tally.nanoseconds(in: bench.state, at: start)
    for _ in 0..<2_000 {
      bench.advance(by: .nanoseconds(Int64.random(in: 0...3_000_000_000, using: &random)))
      switch Int.random(in: 0..<8, using: &random) {
      case 0: bench.trip()
      case 1: bench.reset()
      case 2: bench.set(.observe, for: .seconds(2))
      case 3: _ = bench.permit()
      case 4, 5: bench.call(.failure())
      case 6: break
      default: bench.call(.success)
      }
      let look = bench.look
      let now = look.tally.nanoseconds(in: look.state, at: bench.now.boot)
      for state in BreakerState.allCases { #expect(now[state] >= before[state], "seed \(seed)") }
      let all = now.closed + now.open + now.halfOpen
      #expect(all == bench.now.boot.since(start), "seed \(seed)")
      before = now
    }
  }

  @Test(
    arguments: [
      // Changed 100 s before the boot, then never, then in the future by a clock that was set back.
      (-100, true, -100), (nil, true, -500), (100, true, 0), (100, false, 100), (nil, false, -500),
    ] as [(Int64?, Bool, Int64)])
  func `the beginning of a state is worked out from the wall clock`(
    changed: Int64?, isEarlier: Bool, seconds: Int64
  ) {
    var record = BreakerRecord()
    let booted = Moment.start.wallMilliseconds
    record.changedAtMilliseconds = changed.map { booted + $0 * 1_000 }
    let began = record.stateBegan(
      createdAtMilliseconds: booted - 500_000, bootedAtMilliseconds: booted,
      beforeBoot: isEarlier)
    #expect(began.nanoseconds == seconds * 1_000_000_000)
  }
}

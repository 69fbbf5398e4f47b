import Testing

@testable import BreakerCore

/// Long random walks on which the machine and the naive breaker must agree at every step.
///
/// To reproduce a failure: `SHARED_BREAKER_SEED=<the seed it printed> swift test`.
@Suite struct RandomWalkTests {
  @Test(arguments: Seed.all)
  func `the machine agrees with a naive breaker that remembers everything`(seed: UInt64) {
    var walk = RandomWalk(seed: seed)
    for step in 0..<300 {
      let what = walk.step()
      let differences = walk.differences
      guard differences.isEmpty else {
        let policy = PolicyWords(of: walk.bench.policy)
        Issue.record("seed \(seed), step \(step), \(what), \(policy): \(differences)")
        return
      }
    }
  }

  @Test func `the random walks reach every reason for an event`() {
    var reasons: Set<String> = []
    for seed in 1...UInt64(150) {
      var walk = RandomWalk(seed: seed)
      for _ in 0..<200 {
        _ = walk.step()
        for event in walk.bench.events {
          // The numbers differ from walk to walk.
          let words = (event.reason ?? event.change.wireKind).split(separator: " ")
          reasons.insert(words.filter { !$0.contains(where: \.isNumber) }.joined(separator: " "))
        }
      }
    }
    let expected: Set = [
      "consecutive failure", "consecutive failures", "failure within", "failures within",
      "of call failed", "of calls failed", "of call took at least slow-after",
      "of calls took at least slow-after", "a permanent failure",
      "a failure that named its open time,", "the probe failed",
      "the probe took longer than probe-timeout", "probe failed", "probes failed",
      "tripped by hand", "the open time is over", "the probe succeeded", "probes succeeded",
      "the mode has expired", "suspected by host", "suspected by hosts", "b recovered",
      "process took longer than probe-timeout", "process has ended",
      "process has ended, as that of the probe before did: the next probe waits for open-for",
      "the process of the probe ended",
      "how long calls take here is unknown",
      "reset", "mode", "held for", "asked for held for by hold-max",
      "a call succeeded, after", "a call succeeded, after prolonged time",
      "a call succeeded, after prolonged times", "a call failed, after",
      "a call failed, after prolonged time", "a call failed, after prolonged times",
      "ended by hand, after", "ended by hand, after prolonged time",
      "ended by hand, after prolonged times",
      "the first call still runs, after", "the first call still runs, after prolonged time",
      "the first call still runs, after prolonged times",
    ]
    #expect(reasons == expected)
  }

  @Test(arguments: Seed.all)
  func `a breaker still comes to permit a call after a reboot cuts a random walk short`(
    seed: UInt64
  ) {
    var walk = RandomWalk(seed: seed)
    for _ in 0..<Int(seed % 150) { _ = walk.step() }
    var (bench, random) = (walk.bench, walk.random)
    let year: Int64 = 365 * 86_400_000
    bench.now.wallMilliseconds += random.pick([-year, -20, 0, 20, year])
    bench.now.boot = Instant(nanoseconds: random.pick([0, 1, 10_000_000, 1_000_000_000_000]))
    bench.record = bench.record.carriedOver(to: bench.now)
    #expect(bench.record == bench.record.carriedOver(to: bench.now))
    let longest = Duration.nanoseconds(bench.record.openNanoseconds)
    #expect(bench.openRemaining ?? .zero <= longest)
    if bench.record.mode.until == nil { bench.set(.automatic) }
    if let until = bench.record.mode.until {
      #expect(until.nanoseconds <= bench.now.boot.nanoseconds + 30_000_000)
      bench.advance(by: .nanoseconds(max(0, until.since(bench.now.boot))))
    }
    bench.advance(by: bench.openRemaining ?? .zero)
    if let hold = bench.record.holds.hold {
      #expect(hold.remaining(at: bench.now.boot) <= hold.lengthNanoseconds)
      bench.advance(by: .nanoseconds(hold.remaining(at: bench.now.boot)))
    }
    #expect(bench.permit() != nil, "seed \(seed)")
  }
}

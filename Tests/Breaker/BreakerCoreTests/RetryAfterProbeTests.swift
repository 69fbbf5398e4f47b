import Testing

@testable import BreakerCore

/// The time that a caller is told when it is rejected while a probe is under way.
@Suite struct RetryAfterProbeTests {
  private static let policy = BreakerPolicy(
    maxFailures: 1, openFor: .seconds(1), successesToClose: 99, probeTimeout: .seconds(30))

  /// A breaker whose probes have succeeded after these times, and whose next one has just begun.
  private func probing(after times: [Duration], _ policy: BreakerPolicy = policy) -> Bench {
    var bench = Bench(policy)
    bench.becomeDue()
    for time in times {
      let probe = bench.permit()
      bench.advance(by: time)
      #expect(bench.report(.success, for: probe) == .counted)
    }
    _ = bench.permit()
    return bench
  }

  private func wait(_ bench: Bench) -> Duration? {
    guard case .rejected(let rejection) = bench.assess() else { return nil }
    return rejection.retryAfter
  }

  @Test func `no caller is told to wait for the end of a lease that has only begun`() {
    #expect(wait(probing(after: [])) == .seconds(1))
    #expect(wait(probing(after: [.milliseconds(50)])) == .milliseconds(50))
  }

  @Test func `the latest probes predict how long the next one takes`() {
    #expect(wait(probing(after: [.seconds(4)])) == .seconds(4))
    #expect(wait(probing(after: [.seconds(4), .seconds(2)])) == .seconds(3))
    #expect(wait(probing(after: [.seconds(9), .seconds(9), .seconds(1)])) == .seconds(5))
  }

  @Test func `only successful probes predict how long the next one takes`() {
    for outcome in [CallOutcome.failure(), .ignored] {
      var bench = probing(after: [.milliseconds(40)])
      bench.reset()
      bench.becomeDue()
      bench.gone = [.worker]
      let hung = bench.permit(for: .process(2))
      bench.advance(by: .seconds(20))
      bench.report(outcome, for: hung)
      bench.becomeDue()
      _ = bench.permit(for: .process(2))
      #expect(wait(bench) == .milliseconds(40))
    }
  }

  @Test func `a probe that timed out predicts nothing about the next one`() {
    var bench = probing(after: [.milliseconds(40)])
    bench.advance(by: .seconds(30))
    bench.settle()
    bench.becomeDue()
    _ = bench.permit()
    #expect(wait(bench) == .milliseconds(40))
  }

  @Test func `a caller may report how long its probe took`() {
    var bench = probing(after: [])
    let lease = bench.record.leases[0]
    let probe = PermitGrant(kind: .probe, generation: lease.generation, lease: lease.id)
    bench.advance(by: .seconds(5))
    bench.report(.success, for: probe, elapsed: .milliseconds(300))
    _ = bench.permit()
    #expect(wait(bench) == .milliseconds(300))
  }

  @Test func `all callers that ask before an instant are told the same one`() {
    var bench = probing(after: [.milliseconds(80)])
    let start = bench.now.boot
    let told: [(milliseconds: Int64, at: Int64)] = [
      (0, 80), (79, 80), (80, 160), (159, 160), (160, 320), (639, 640), (640, 1_280),
      (1_279, 1_280), (1_280, 2_280), (2_280, 3_280), (29_279, 29_280), (29_300, 30_000),
    ]
    for (milliseconds, at) in told {
      bench.now.boot = start.advanced(by: milliseconds * 1_000_000)
      #expect(wait(bench) == .milliseconds(at - milliseconds), "after \(milliseconds) ms")
    }
  }

  @Test func `a caller that obeys pauses between two questions, and is at most a second late`() {
    for usual in [Duration.zero, .nanosecond, .milliseconds(3), .milliseconds(700), .seconds(7)] {
      var bench = probing(after: [usual])
      let began = bench.now.boot
      var questions = 0
      var longest = Duration.zero
      while let time = wait(bench), bench.record.leases[0].deadline > bench.now.boot {
        #expect(time > .zero)
        questions += 1
        bench.advance(by: time)
        longest = max(longest, time)
      }
      #expect(bench.now.boot.since(began) == 30_000_000_000)
      #expect(longest <= max(usual, .seconds(1)))
      #expect(questions < 40)
    }
  }

  @Test func `a lease that ends sooner than probes usually take is when to ask again`() {
    var bench = probing(after: [.seconds(20)])
    bench.advance(by: .seconds(9))
    #expect(wait(bench) == .seconds(11))
    bench.record.leases[0].deadline = bench.now.boot.advanced(by: 4_000_000_000)
    #expect(wait(bench) == .seconds(4))
  }

  @Test func `a lease of an earlier version, which names no beginning, is looked at every second`()
  {
    var bench = probing(after: [.milliseconds(50)])
    let lease = bench.record.leases[0]
    bench.record.leases[0].began = nil
    for _ in 0..<3 {
      #expect(wait(bench) == .seconds(1))
      bench.advance(by: .seconds(9.5))
    }
    bench.advance(by: .seconds(1))
    #expect(wait(bench) == .seconds(0.5))
    let probe = PermitGrant(kind: .probe, generation: lease.generation, lease: lease.id)
    #expect(bench.report(.success, for: probe) == .counted)
    #expect(bench.record.usualProbeNanoseconds == 50_000_000)
  }

  @Test func `a lease with impossible instants is answered too`() {
    for began in [Int64.min, .max] {
      var bench = probing(after: [.milliseconds(50)])
      bench.record.leases[0].began = Instant(nanoseconds: began)
      let time = wait(bench) ?? .zero
      #expect(time > .zero && time <= .seconds(1))
    }
  }

  @Test func `a renewed lease makes no caller wait longer`() {
    var bench = Bench(Self.policy)
    bench.becomeDue()
    let probe = bench.permit()
    #expect(bench.renew(probe, for: .seconds(7_200)) == true)
    #expect(wait(bench) == .seconds(1))
    bench.advance(by: .seconds(7_000))
    #expect(wait(bench) == .seconds(1))
  }

  @Test func `how long probes take outlives a close, a reset and a reboot`() {
    var bench = probing(after: [.milliseconds(50)], BreakerPolicy(openFor: .seconds(1)))
    #expect(bench.state == .closed)
    bench.reset()
    bench.record = bench.record.carriedOver(to: bench.now)
    bench.becomeDue()
    _ = bench.permit()
    #expect(wait(bench) == .milliseconds(50))
  }

  @Test func `callers are told somewhat later times, by the jitter at most and never earlier`() {
    let rejection = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(10))
    let draws = [0, 0.25, 0.5, 0.999_999_9]
    let told = draws.map { rejection.spread(by: 0.2, draw: $0).retryAfter ?? .zero }
    #expect(told[0...2] == [.seconds(10), .seconds(10.5), .seconds(11)])
    #expect(told[3] > .seconds(11.99) && told[3] < .seconds(12))
    #expect(draws.allSatisfy { rejection.spread(by: 0.0, draw: $0) == rejection })
    let endless = Rejection(state: .open, mode: .forcedOpen, retryAfter: nil)
    #expect(endless.spread(by: 0.2, draw: 0.5) == endless)
    let year = Rejection(state: .open, mode: .forcedOpen, retryAfter: .nanoseconds(Int64.max))
    #expect(year.spread(by: 0.99, draw: 0.9).retryAfter == .nanoseconds(Int64.max))
  }
}

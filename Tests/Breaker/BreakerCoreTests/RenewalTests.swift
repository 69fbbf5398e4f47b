import Testing

@testable import BreakerCore

/// A probe that reports that it is still under way keeps its lease.
@Suite struct RenewalTests {
  @Test func `a probe that renews its lease in time can take as long as it needs`() {
    var (bench, probe) = LeaseTests.probing()
    for _ in 0..<500 {
      bench.advance(by: .seconds(29))
      #expect(bench.renew(probe) == true)
      #expect(bench.look.state == .halfOpen)
    }
    #expect(bench.request().rejection?.retryAfter == .seconds(1))
    #expect(bench.report(.success, for: probe) == .counted)
    #expect(bench.state == .closed)
    #expect(bench.record.lastLease == 1)
  }

  @Test func `a renewal at the deadline comes too late`() {
    var (bench, probe) = LeaseTests.probing()
    bench.advance(by: .seconds(30))
    #expect(bench.renew(probe) == false)
    #expect(bench.state == .open)
    #expect(bench.renew(probe) == false)
  }

  @Test func `a renewed lease still ends with its owner`() {
    var (bench, probe) = LeaseTests.probing()
    #expect(bench.renew(probe, for: .seconds(7_200)) == true)
    bench.gone = [.process(2)]
    #expect(bench.renew(probe) == false)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a renewal never shortens a lease and never extends it beyond a year`() {
    var (bench, probe) = LeaseTests.probing()
    #expect(bench.renew(probe, for: .seconds(1)) == true)
    let now = bench.now.boot
    #expect(bench.record.leases.map(\.deadline) == [now.advanced(by: 30_000_000_000)])
    #expect(bench.renew(probe, for: .seconds(Int64.max)) == true)
    let latest = now.advanced(by: BreakerPolicy.longestDuration.inNanoseconds)
    #expect(bench.record.leases.map(\.deadline) == [latest])
  }

  @Test func `a probe of an earlier round keeps its slot while it renews`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1)))
    bench.becomeDue()
    let probe = bench.permit()
    bench.trip()
    for _ in 0..<5 {
      bench.advance(by: .seconds(20))
      #expect(bench.renew(probe) == true)
    }
    #expect(bench.request().rejection?.retryAfter == .seconds(1))
    #expect(bench.state == .open)
    #expect(bench.report(.success, for: probe) == .outdated)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test(arguments: [
    (Duration.seconds(7_200), 7_200), (.seconds(1), 30), (.seconds(Int64.max), 31_536_000),
  ])
  func `a probe may ask for more time than probe-timeout, up to a year`(
    asked: Duration, seconds: Int
  ) {
    var bench = Bench()
    bench.becomeDue()
    let probe = bench.permit(probeTimeout: asked)
    let deadline = bench.now.boot.advanced(by: Int64(seconds) * 1_000_000_000)
    #expect(probe?.deadline == deadline)
    #expect(bench.record.leases.map(\.deadline) == [deadline])
  }
}

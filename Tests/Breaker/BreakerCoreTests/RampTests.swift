import Testing

@testable import BreakerCore

/// Ramps: after a close or a hold, few calls go at once, and more with each success.
@Suite struct RampTests {
  private static let policy = BreakerPolicy(rampUp: .seconds(10))

  /// A breaker that a probe has just closed.
  private static var closed: Bench {
    var bench = Bench(policy)
    bench.becomeDue()
    bench.call(.success)
    return bench
  }

  @Test func `a close begins a ramp, which ends by time alone`() {
    var bench = Self.closed
    let end = bench.now.boot.advanced(by: 10_000_000_000)
    #expect(bench.record.rampEnd(at: bench.now.boot) == end)
    #expect(bench.nextPermit?.kind == .normal)
    bench.advance(by: .seconds(10) - .nanosecond)
    #expect(bench.record.rampEnd(at: bench.now.boot) == end)
    bench.advance(by: .nanosecond)
    #expect(bench.record.rampEnd(at: bench.now.boot) == nil)
    // The next call records it, so that all processes know.
    #expect(bench.assess() == .undecided)
    let next = bench.permit()
    #expect(next?.kind == .normal)
    #expect(bench.record.rampUntil == nil && bench.assess() != .undecided)
  }

  @Test func `without the word there is no ramp`() {
    var bench = Bench()
    bench.becomeDue()
    bench.call(.success)
    bench.hold(for: .seconds(60))
    bench.endHold()
    #expect(bench.record.rampUntil == nil)
  }

  @Test(arguments: [CallOutcome.success, .failure()])
  func `the end of a hold begins a ramp, however it ends`(outcome: CallOutcome) {
    var bench = Bench(Self.policy)
    bench.hold(for: .seconds(60))
    #expect(bench.record.rampUntil == nil)
    bench.advance(by: .seconds(60))
    let first = bench.permit()
    #expect(bench.record.rampUntil == nil)
    bench.report(outcome, for: first)
    #expect(bench.record.rampUntil == bench.now.boot.advanced(by: 10_000_000_000))
  }

  @Test func `a hold that is ended by hand, or outlasted by its first call, begins one too`() {
    var bench = Bench(Self.policy)
    bench.hold(for: .seconds(60))
    bench.endHold()
    #expect(bench.record.rampUntil == bench.now.boot.advanced(by: 10_000_000_000))
    bench.hold(for: .seconds(60))
    #expect(bench.record.rampUntil == nil)
    bench.advance(by: .seconds(60))
    let end = bench.now.boot.advanced(by: 40_000_000_000)
    let first = bench.permit()
    #expect(first?.deadline == end.advanced(by: -10_000_000_000))
    bench.advance(by: .seconds(35))
    bench.settle()
    // It began when the time was over in which one call goes first, and that one was let in.
    #expect(bench.record.rampUntil == end && bench.record.rampHeadStart == 1)
  }

  @Test func `a trip ends a ramp, and so does a hold`() {
    var bench = Self.closed
    bench.trip()
    #expect(bench.record.rampUntil == nil)
    bench = Self.closed
    bench.hold(for: .seconds(1))
    #expect(bench.record.rampUntil == nil)
  }

  @Test func `a reset begins a ramp if calls were kept back, and keeps one that is under way`() {
    var bench = Bench(Self.policy)
    bench.reset()
    #expect(bench.record.rampUntil == nil)
    bench.trip()
    bench.reset()
    let end = bench.now.boot.advanced(by: 10_000_000_000)
    #expect(bench.record.rampUntil == end)
    bench.advance(by: .seconds(4))
    bench.reset()
    #expect(bench.record.rampUntil == end)
    bench.hold(for: .seconds(60))
    bench.reset()
    #expect(bench.record.rampUntil == bench.now.boot.advanced(by: 10_000_000_000))
  }

  @Test func `a breaker that closes while it is held begins its ramp after the hold`() {
    var bench = Bench(Self.policy)
    bench.becomeDue()
    let probe = bench.permit()
    bench.hold(for: .seconds(60), by: .operator("ann"))
    bench.report(.success, for: probe)
    #expect(bench.state == .closed && bench.record.rampUntil == nil)
    bench.advance(by: .seconds(60))
    bench.call(.success)
    #expect(bench.record.rampUntil != nil)
  }

  @Test func `forced_closed overrules a ramp, and a policy without the word ends it`() {
    var bench = Self.closed
    bench.set(.forcedClosed)
    #expect(bench.record.rampEnd(at: bench.now.boot) == nil)
    bench.set(.automatic)
    #expect(bench.record.rampEnd(at: bench.now.boot) != nil)
    bench.policy.rampUp = nil
    #expect(bench.assess() == .undecided)
    bench.call(.success)
    #expect(bench.record.rampUntil == nil)
  }

  @Test func `the end of a mode that was forced for a time is recorded while there is a ramp`() {
    var bench = Self.closed
    bench.set(.forcedClosed, for: .seconds(1))
    bench.advance(by: .seconds(1))
    #expect(bench.assess() == .undecided)
    let next = bench.permit()
    #expect(next?.kind == .normal && bench.record.mode.mode == .automatic)
    #expect(bench.record.rampEnd(at: bench.now.boot) != nil)
  }

  @Test func `a request that declares a policy without the word makes no probe`() {
    var bench = Self.closed
    let now = bench.now
    let step = bench.record.requested(at: now, by: .worker, policy: BreakerPolicy())
    #expect(step.answer == .permitted(PermitGrant(kind: .normal, generation: 4)))
    #expect(bench.record.rampUntil == nil)
  }

  @Test func `a ramp does not outlive the host, nor a false clock`() {
    let bench = Self.closed
    #expect(bench.record.carriedOver(to: bench.now).rampUntil == nil)
    var record = bench.record
    record.rampUntil = bench.now.boot.advanced(by: .max / 2)
    let wasFalse = record.correctFalseTimes(at: bench.now.boot)
    #expect(wasFalse && record.rampUntil == nil)
  }

  @Test func `one unit alone always goes, and others as far as units have succeeded`() {
    let none = RampAllowance(succeeded: 0)
    #expect(none.permits(1, beside: 0) && none.permits(9, beside: 0))
    #expect(!none.permits(1, beside: 1))
    let three = RampAllowance(succeeded: 2)
    #expect(three.permits(1, beside: 2) && !three.permits(2, beside: 2))
  }
}

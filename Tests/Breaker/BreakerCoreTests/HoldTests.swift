import Testing

@testable import BreakerCore

/// Holds: a resource that works asks to be left alone, and that is no failure.
@Suite struct HoldTests {
  static let minute = Duration.seconds(60)

  @Test func `a hold rejects calls until its end, and is no failure`() {
    var bench = Bench()
    let permit = bench.permit()
    #expect(bench.report(.hold(for: Self.minute, reason: "HTTP 429"), for: permit) == .counted)
    bench.advance(by: Self.minute - .milliseconds(1))
    let rejection = bench.request().rejection
    #expect(rejection?.cause == .held)
    #expect(rejection?.retryAfter == .milliseconds(1))
    #expect(rejection?.state == .closed)
    #expect(bench.state == .closed && bench.record.trips == 0)
    #expect(bench.record.consecutiveFailures == 0)
    #expect(bench.record.totals.holds == 1 && bench.record.totals.ignored == 1)
    #expect(bench.record.totals.held == 1 && bench.record.totals.rejections == 0)
    #expect(bench.events.map(\.change) == [.hold(.began)])
    #expect(bench.events.first?.reason == "HTTP 429: held for 1m")
  }

  @Test func `at its end one call goes first, and its success lets the others go`() {
    var bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    #expect(bench.assess() == .undecided)
    let first = bench.permit()
    #expect(first != nil)
    #expect(bench.rejection?.cause == .held)
    #expect(bench.report(.success, for: first) == .counted)
    #expect(bench.permit() != nil)
    #expect(bench.record.holds.hold == nil && bench.record.leases.isEmpty)
    #expect(bench.events.last?.change == .hold(.ended))
    #expect(bench.events.last?.reason == "a call succeeded, after 1m")
  }

  @Test func `the longest wish wins`() {
    var bench = held(for: Self.minute)
    bench.advance(by: .seconds(20))
    #expect(bench.hold(for: .seconds(10)) == .isShorter(than: 40_000_000_000))
    #expect(bench.hold(for: .seconds(40)) == .isShorter(than: 40_000_000_000))
    #expect(bench.events.count == 1)
    #expect(bench.hold(for: .seconds(280)) == .holds(280_000_000_000))
    #expect(bench.record.holds.hold?.sinceMilliseconds == Moment.start.wallMilliseconds)
    #expect(bench.events.last?.change == .hold(.prolonged))
    #expect(bench.rejection?.retryAfter == .seconds(280))
    // Less than twice as long as is left is no news.
    bench.advance(by: .seconds(80))
    bench.hold(for: .seconds(399))
    #expect(bench.events.count == 2)
    bench.hold(for: .seconds(798))
    #expect(bench.events.count == 3)
  }

  @Test func `thirty-two answers to one burst are one entry of the history`() {
    var bench = Bench()
    let permits = (0..<32).map { _ in bench.permit() }
    for permit in permits {
      bench.report(.hold(for: Self.minute), for: permit)
      bench.advance(by: .milliseconds(30))
    }
    #expect(bench.events.map(\.change) == [.hold(.began)])
    bench.advance(by: Self.minute - .milliseconds(31))
    #expect(bench.rejection?.cause == .held)
    bench.advance(by: .milliseconds(1))
    #expect(bench.permit() != nil)
  }

  @Test func `a call that began before the hold ends nothing, and still counts`() {
    var bench = Bench()
    let (early, permit) = (bench.permit(), bench.permit())
    let late = bench.permit()
    bench.report(.hold(for: Self.minute), for: permit)
    #expect(bench.report(.success, for: early) == .counted)
    bench.advance(by: Self.minute)
    #expect(bench.report(.success, for: late) == .counted)
    #expect(bench.record.holds.hold != nil)
    #expect(bench.record.totals.successes == 2)
  }

  @Test func `a call that was lost ends no hold, because it may have begun before`() {
    var bench = Bench(BreakerPolicy(maxConcurrent: 4, lostCalls: .failure))
    let permits = [bench.permit(), bench.permit()]
    bench.report(.hold(for: Self.minute), for: permits[0])
    bench.advance(by: Self.minute)
    bench.lose(1, of: .worker)
    #expect(bench.record.totals.failures == 1 && bench.record.consecutiveFailures == 1)
    #expect(bench.record.holds.hold != nil)
    let first = bench.permit()
    #expect(first?.kind == .probe && bench.rejection?.cause == .held)
  }

  @Test func `answers that name no time hold calls from the third in a row on, ever longer`() {
    var bench = Bench()
    for length in [1, 2, 4, 8, 16, 32, 64, 64, 64] as [Int] {
      while bench.record.holds.unnamed < 2 { bench.call(.hold(for: nil)) }
      #expect(bench.call(.hold(for: .zero)) == .counted)
      #expect(bench.rejection?.retryAfter == .seconds(length))
      bench.advance(by: .seconds(length))
    }
    // One hold in the history, with an entry each time that it doubled.
    #expect(bench.events.count == 7)
    #expect(bench.record.holds.hold?.sinceMilliseconds == Moment.start.wallMilliseconds)
    bench.call(.success)
    #expect(bench.record.holds == HoldRecord.ended(at: bench.record))
    #expect(bench.events.last?.reason == "a call succeeded, after 255s, prolonged 8 times")
  }

  @Test func `a success between answers that name no time ends their row`() {
    var bench = Bench()
    for _ in 0..<100 {
      bench.call(.hold(for: nil))
      bench.call(.hold(for: nil))
      bench.call(.success)
    }
    #expect(bench.record.totals.held == 0 && bench.events.isEmpty)
    // The success of a call that began before the hold does not.
    let early = bench.permit()
    bench.calls(3, .hold(for: nil))
    bench.report(.success, for: early)
    #expect(bench.record.holds.unnamed == 3)
  }

  @Test func `a time in the past names none`() {
    var bench = Bench()
    let past = CallOutcome.hold(.init(.until(bench.now.wallMilliseconds - 1)))
    let future = CallOutcome.hold(.init(.until(bench.now.wallMilliseconds + 1_500)))
    bench.call(past)
    #expect(bench.record.holds.hold == nil && bench.record.holds.unnamed == 1)
    #expect(bench.hold(for: .seconds(-1)) == .none)
    bench.call(future)
    #expect(bench.rejection?.retryAfter == .milliseconds(1_500))
  }

  @Test func `hold-max cuts what an answer asks for, but not what an operator does`() {
    var bench = Bench(BreakerPolicy(holdMax: .seconds(10)))
    bench.call(.hold(for: .seconds(3_600)))
    #expect(bench.rejection?.retryAfter == .seconds(10))
    #expect(bench.events.last?.reason == "asked for 1h, held for 10s by hold-max")
    #expect(bench.hold(for: .seconds(7_200), by: .operator("ann")) == .holds(7_200_000_000_000))
    #expect(bench.rejection?.retryAfter == .seconds(7_200))
    #expect(bench.record.holds.hold?.askedNanoseconds == nil)
    #expect(bench.hold(for: .seconds(60)) == .isShorter(than: 7_200_000_000_000))
    // A year is the longest time that any policy knows.
    #expect(
      bench.hold(for: .seconds(1 << 40), by: .operator("ann"))
        == .holds(BreakerPolicy.longestDuration.inNanoseconds))
    #expect(bench.record.holds.hold?.askedNanoseconds == nil)
    // A time that `hold-for` and its doubling give was asked for by no one.
    var short = Bench(BreakerPolicy(holdFor: .seconds(5), holdMax: .seconds(2)))
    short.calls(3, .hold(for: nil))
    #expect(short.events.last?.reason == "held for 2s")
  }

  @Test func `only a program or an operator gives callers a reason`() {
    var bench = held(for: Self.minute)
    #expect(bench.rejection?.reason == nil)
    bench.hold(for: .seconds(120), reason: "quota used up")
    #expect(bench.rejection?.reason == "quota used up")
    #expect(bench.record.holds.hold?.setBy == "app")
  }

  @Test func `ending a hold by hand lets all calls go, and calls from before bring no hold`() {
    var bench = Bench()
    let early = bench.permit()
    #expect(bench.endHold() == false)
    bench.hold(for: Self.minute, by: .operator("ann"))
    #expect(bench.endHold(reason: "quota raised") == true)
    #expect(bench.events.last?.reason == "quota raised, after 0s")
    #expect(bench.nextPermit?.kind == .normal)
    bench.report(.hold(for: Self.minute), for: early)
    #expect(bench.record.holds.hold == nil)
    bench.call(.hold(for: Self.minute))
    #expect(bench.rejection?.cause == .held)
  }

  @Test func `a reset ends a hold, and calls from before bring none`() {
    var bench = held(for: Self.minute)
    let early = PermitGrant(kind: .normal, generation: bench.record.generation)
    bench.reset()
    #expect(bench.nextPermit?.kind == .normal)
    bench.report(.hold(for: Self.minute), for: early)
    #expect(bench.permit() != nil)
  }

  @Test func `an open breaker that is held permits calls when both are over`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(5)))
    bench.trip()
    bench.hold(for: .seconds(3_600), by: .operator("ann"))
    let open = bench.request().rejection
    #expect(open?.cause == .open && open?.retryAfter == .seconds(3_600))
    bench.advance(by: .seconds(6))
    let held = bench.request().rejection
    #expect(held?.cause == .held && held?.retryAfter == .seconds(3_594))
    bench.advance(by: .seconds(3_594))
    let probe = bench.permit()
    #expect(probe?.kind == .probe && bench.state == .halfOpen)
  }

  @Test func `a probe that brings a hold decides nothing, and gives its slot back`() {
    var bench = Bench()
    bench.becomeDue()
    let probe = bench.permit()
    bench.report(.hold(for: Self.minute), for: probe)
    #expect(bench.state == .halfOpen && bench.record.leases.isEmpty)
    #expect(bench.record.probeSuccesses == 0 && bench.record.probeFailures == 0)
    #expect(bench.rejection?.cause == .held)
    bench.advance(by: Self.minute)
    let next = bench.permit()
    #expect(next?.kind == .probe)
    bench.report(.success, for: next)
    #expect(bench.state == .closed && bench.record.holds.hold == nil)
  }

  @Test func `a probe that ran beside it still counts`() {
    var bench = Bench(BreakerPolicy(probes: 2, successesToClose: 2))
    bench.becomeDue()
    let (one, other) = (bench.permit(), bench.permit())
    bench.report(.hold(for: Self.minute), for: one)
    #expect(bench.report(.success, for: other) == .counted)
    #expect(bench.record.probeSuccesses == 1)
    #expect(bench.rejection?.cause == .held)
  }

  @Test func `a probe that has lost its lease still brings a time`() {
    var bench = Bench()
    bench.becomeDue()
    let probe = bench.permit()
    bench.advance(by: .seconds(31))
    #expect(bench.report(.hold(for: Self.minute), for: probe) == .refused)
    #expect(bench.record.holds.hold?.remaining(at: bench.now.boot) == 60_000_000_000)
  }

  @Test func `forced_closed overrules a hold, and observe counts what it would reject`() {
    var bench = held(for: Self.minute)
    bench.set(.forcedClosed)
    #expect(bench.nextPermit?.wouldReject == false)
    bench.set(.observe)
    let observed = bench.permit()
    #expect(observed?.wouldReject == true && bench.record.totals.wouldReject == 1)
    bench.set(.forcedOpen, for: .seconds(10))
    #expect(bench.rejection?.retryAfter == Self.minute)
    #expect(bench.rejection?.cause == .open)
  }

  @Test func `a time is true in every mode`() {
    var bench = Bench()
    bench.set(.forcedClosed)
    bench.call(.hold(for: Self.minute))
    bench.set(.automatic)
    #expect(bench.rejection?.cause == .held)
  }

  @Test func `others go on when the first call still runs, and it then counts like any other`() {
    var bench = held(for: .seconds(300))
    bench.advance(by: .seconds(300))
    let first = bench.permit()
    bench.advance(by: .seconds(30) - .milliseconds(1))
    #expect(bench.rejection?.cause == .held)
    bench.advance(by: .milliseconds(1))
    bench.settle()
    #expect(bench.nextPermit?.kind == .normal)
    #expect(bench.record.totals.failures == 0)
    #expect(bench.events.last?.reason == "the first call still runs, after 330s")
    #expect(bench.report(.failure(), for: first) == .counted)
    #expect(bench.record.consecutiveFailures == 1)
  }

  @Test func `the time in which calls go first is no longer than the hold was`() {
    var bench = held(for: .seconds(2))
    bench.advance(by: .seconds(2))
    #expect(bench.permit() != nil)
    bench.advance(by: .seconds(2))
    #expect(bench.nextPermit?.kind == .normal)
  }

  @Test func `a first call that decides nothing sends the next one, in the same time`() {
    var bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    let first = bench.permit()
    bench.advance(by: .seconds(10))
    #expect(bench.renew(first) == true)
    bench.report(.ignored, for: first)
    let second = bench.permit()
    #expect(second?.deadline == first?.deadline)
    bench.gone.insert(.worker)
    #expect(bench.assess() == .undecided)
    let third = bench.permit(for: .process(2))
    #expect(third?.deadline == first?.deadline)
    #expect(bench.events.map(\.change) == [.hold(.began)])
  }

  @Test func `a first call that takes longer than its turn goes on as an ordinary one`() {
    var bench = held(for: .seconds(1))
    bench.advance(by: .seconds(1))
    let first = bench.permit()
    bench.advance(by: .seconds(5))
    #expect(bench.nextPermit?.kind == .normal)
    #expect(bench.renew(first) == true)
    #expect(bench.report(.success, for: first) == .counted)
  }

  @Test func `a first call that fails is one failure, and the others go`() {
    var bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    bench.report(.failure(error: "HTTP 500"), for: bench.permit())
    #expect(bench.record.consecutiveFailures == 1)
    #expect(bench.nextPermit?.kind == .normal)
    #expect(bench.events.last?.reason == "a call failed, after 1m")
  }

  @Test func `a first call that is told to wait holds the others again`() {
    var bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    bench.report(.hold(for: Self.minute), for: bench.permit())
    #expect(bench.rejection?.retryAfter == Self.minute)
    #expect(bench.record.holds.hold?.extensions == 1)
    #expect(bench.events.count == 1)
  }

  @Test func `a straggler's longer wish outlives the success of the first call`() {
    var bench = Bench()
    let straggler = bench.permit()
    bench.call(.hold(for: .seconds(1)))
    bench.advance(by: .seconds(1))
    let first = bench.permit()
    bench.report(.hold(for: Self.minute), for: straggler)
    #expect(bench.report(.success, for: first) == .counted)
    #expect(bench.rejection?.retryAfter == Self.minute)
  }

  @Test func `opening a breaker takes the turn of the call that goes first`() {
    var bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    let first = bench.permit()
    bench.trip()
    #expect(bench.record.leases.isEmpty)
    #expect(bench.report(.success, for: first) == .refused)
    bench.becomeDue()
    bench.report(.success, for: bench.permit())
    #expect(bench.state == .closed && bench.record.holds.hold == nil)
  }

  @Test func `a hold outlives a reboot, but not for longer than it was set for`() {
    var bench = held(for: Self.minute)
    bench.advance(by: .seconds(20))
    bench.now.boot = Instant(nanoseconds: 5)
    let left = bench.record.carriedOver(to: bench.now)
    #expect(left.holds.hold?.remaining(at: bench.now.boot) == 40_000_000_000)
    bench.now.wallMilliseconds -= 86_400_000
    let clamped = bench.record.carriedOver(to: bench.now)
    #expect(clamped.holds.hold?.until == Instant(nanoseconds: 60_000_000_000))
    bench = held(for: Self.minute)
    bench.advance(by: Self.minute)
    _ = bench.permit()
    bench.now.boot = Instant(nanoseconds: 5)
    bench.record = bench.record.carriedOver(to: bench.now)
    #expect(bench.record.holds.hold?.turnUntil == nil)
    #expect(bench.permit() != nil)
  }

  @Test func `an end that no clock of this host can have written is over`() {
    var bench = held(for: Self.minute)
    bench.record.holds.hold?.until = Instant(nanoseconds: .max)
    #expect(bench.record.correctFalseTimes(at: bench.now.boot) == true)
    #expect(bench.record.holds.hold?.until == bench.now.boot)
    _ = bench.permit()
    bench.record.holds.hold?.turnUntil = Instant(nanoseconds: .max)
    #expect(bench.record.correctFalseTimes(at: bench.now.boot) == true)
    #expect(bench.record.holds.hold?.turnUntil == nil)
  }

  @Test func `an outcome that could end a hold, or begin one, has to be written`() {
    var bench = Bench()
    let early = bench.permit()!
    func isOnlyCounted(_ outcome: CallOutcome, _ permit: PermitGrant) -> Bool {
      bench.record.isOnlyCounted(
        outcome, for: permit, elapsed: nil, at: bench.now.boot, policy: bench.policy,
        isWindowElsewhere: false)
    }
    #expect(!isOnlyCounted(.hold(for: nil), early))
    #expect(isOnlyCounted(.success, early))
    bench.call(.hold(for: nil))
    #expect(!isOnlyCounted(.success, early))
    #expect(isOnlyCounted(.ignored, early))
    bench.hold(for: Self.minute)
    #expect(isOnlyCounted(.success, early))
  }

  @Test func `a hold is no longer than the text that a store keeps`() {
    var bench = Bench()
    bench.call(.hold(for: Self.minute, reason: String(repeating: "x", count: 5_000)))
    #expect(bench.record.holds.hold?.reason?.utf8.count == 1_024)
    #expect(bench.record.holds.hold?.setBy == "process 1")
  }

  @Test func `every change of a hold reads back as it was written`() {
    for change in BreakerChange.HoldChange.allCases.map({ BreakerChange.hold($0) }) {
      let read = BreakerChange(kind: 9, from: change.wireFrom, to: change.wireTo)
      #expect(read == change && read.kind == .hold)
      #expect(!change.beginsOutage && !change.endsOutage && change.stateAfter == nil)
    }
    #expect(BreakerChange(kind: 9, from: "hold", to: "longer").wireKind == "hold")
    #expect(CallOutcome.hold(for: nil).isWritten && CallOutcome.failure().isWritten)
    #expect(!CallOutcome.ignored.isWritten)
  }

  private func held(for time: Duration) -> Bench {
    var bench = Bench()
    bench.call(.hold(for: time))
    return bench
  }
}

extension Bench {
  /// The answer that a request would get.
  fileprivate var next: Decision<PermitGrant> {
    var copy = self
    return copy.request()
  }

  fileprivate var rejection: Rejection? { next.rejection }

  var nextPermit: PermitGrant? {
    if case .permitted(let grant) = next { grant } else { nil }
  }
}

extension HoldRecord {
  /// The record after a hold of a breaker is over.
  static func ended(at record: BreakerRecord) -> HoldRecord {
    var holds = HoldRecord()
    holds.number = record.holds.number
    return holds
  }
}

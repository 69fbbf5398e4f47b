import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Calls of a resource that works, and has asked to be left alone.
@Suite struct HeldCallTests {
  private let host = TestHost()

  private func breaker(_ policy: BreakerPolicy? = nil) throws -> Breaker {
    try host.process().store().breaker("llm", policy: policy)
  }

  private func history() throws -> [String] {
    try host.store().history(of: "llm").map { "\($0.change)" }
  }

  @Test func `an answer that asks to be left alone holds the calls of every process`() throws {
    let (here, there) = (try breaker(), try breaker())
    try there.run {}
    let answer = try here.run(
      classify: .init(values: { .hold(for: .seconds(60), reason: "HTTP \($0)") })
    ) { 429 }
    #expect(answer == 429)
    for breaker in [here, there, here, there] {
      let error = #expect(throws: BreakerError.self) { try breaker.run {} }
      #expect(error?.rejection?.cause == .held)
      #expect(error?.retryAfter == .seconds(60))
      #expect(
        error?.description
          == "llm is rejecting calls: the resource has asked to be left alone: try again in 1m")
    }
    #expect(here.state == .closed)
    let snapshot = there.snapshot()
    #expect(snapshot.rejection?.cause == .held && !snapshot.permits)
    #expect(snapshot.retryAfter == .seconds(60))
    #expect(snapshot.hold?.endsIn == .seconds(60) && snapshot.hold?.reason == "HTTP 429")
    // Each process has counted its own.
    #expect(snapshot.totals.held >= 2 && snapshot.totals.rejections == 0)
    #expect(snapshot.totals.holds == 1 && snapshot.totals.failures == 0)
    #expect(try history() == ["hold: began"])
  }

  @Test func `exactly one call goes first, and its success lets all others go`() throws {
    let breakers = try (0..<4).map { _ in try breaker() }
    try breakers[0].hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    let first = try breakers[1].acquire()
    for breaker in breakers {
      let error = #expect(throws: BreakerError.self) { try breaker.run {} }
      #expect(error?.rejection?.cause == .held)
    }
    first.succeed()
    for breaker in breakers { try breaker.run {} }
    #expect(breakers[0].snapshot().hold == nil)
    #expect(try history() == ["hold: began", "hold: ended"])
  }

  @Test func `a call that goes first and dies with its process sends the next one`() throws {
    let dying = host.process()
    let other = try breaker()
    try other.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    let first = try dying.store().breaker("llm").acquire().shared()
    #expect(throws: BreakerError.self) { try other.run {} }
    dying.kill()
    try other.run {}
    try breaker().run {}
    _ = first
  }

  @Test func `a call that goes first and is dropped sends the next one`() throws {
    let breaker = try breaker()
    try breaker.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    try breaker.acquire().ignore()
    #expect(breaker.snapshot().hold != nil)
    try breaker.run {}
    #expect(breaker.snapshot().hold == nil)
  }

  @Test func `a hold by hand tells callers its reason, and is ended by hand`() throws {
    let breaker = try breaker()
    let hold = try breaker.hold(for: .seconds(12), reason: "remaining: 0")
    #expect(hold?.endsIn == .seconds(12) && hold?.isByHand == true)
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.reason == "remaining: 0")
    #expect(try breaker.hold(for: .seconds(2))?.endsIn == .seconds(12))
    #expect(try breaker.hold(for: .zero)?.endsIn == .seconds(12))
    let other = try self.breaker()
    #expect(try other.endHold(reason: "more quota"))
    #expect(try !other.endHold())
    try breaker.run {}
    try other.run {}
    #expect(breaker.snapshot().totals.held == 1)
  }

  @Test func `a hold until an instant lasts until then`() throws {
    let breaker = try breaker()
    let later = BreakerTimestamp(
      millisecondsSince1970: host.clock.storeClock.wallTime.millisecondsSince1970 + 5_000)
    #expect(try breaker.hold(until: later)?.endsIn == .seconds(5))
    host.clock.advance(by: .seconds(5))
    try breaker.run {}
    try breaker.acquire().report(.hold(until: host.clock.storeClock.wallTime, reason: "past"))
    #expect(breaker.snapshot().permits)
  }

  @Test func `two answers without a time hold nothing, and a success between them counts`() throws {
    let breaker = try breaker()
    for _ in 0..<20 {
      for _ in 0..<2 { try breaker.acquire().report(.hold(for: nil)) }
      try breaker.run {}
    }
    #expect(breaker.snapshot().totals.holds == 40)
    for _ in 0..<3 { try breaker.acquire().report(.hold(for: nil)) }
    #expect(breaker.snapshot().hold?.endsIn == .seconds(1))
  }

  @Test func `hold-max cuts what an answer asks for, and the snapshot says so`() throws {
    let breaker = try breaker(BreakerPolicy(holdMax: .seconds(10)))
    try breaker.acquire().report(.hold(for: .seconds(3_600)))
    #expect(breaker.snapshot().hold?.askedFor == .seconds(3_600))
    #expect(breaker.snapshot().retryAfter == .seconds(10))
    #expect(try breaker.hold(for: .seconds(60), isOperators: true)?.endsIn == .seconds(60))
    #expect(try breaker.hold(for: .seconds(90))?.endsIn == .seconds(60))
  }

  @Test func `a held breaker that is open as well says open, and the longer time`() throws {
    let breaker = try breaker(BreakerPolicy(openFor: .seconds(5)))
    try breaker.trip()
    try breaker.hold(for: .seconds(3_600))
    for _ in 0..<2 {
      let error = #expect(throws: BreakerError.self) { try breaker.run {} }
      #expect(error?.rejection?.cause == .open && error?.retryAfter == .seconds(3_600))
    }
    host.clock.advance(by: .seconds(6))
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.cause == .held)
    host.clock.advance(by: .seconds(3_594))
    try breaker.run {}
    #expect(breaker.state == .closed && breaker.snapshot().hold == nil)
  }

  @Test func `a call that may not wait for the end of a hold is told so before it looks for room`()
    throws
  {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(59)))
    let busy = try breaker.acquire()
    try breaker.hold(for: .seconds(60))
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(error?.rejection?.cause == .held)
    busy.succeed()
    host.clock.advance(by: .seconds(60))
    try breaker.run {}
    #expect(breaker.snapshot().totals.held == 1)
  }

  @Test func `a call that goes first and does not wait needs its room at once`() throws {
    let breaker = try breaker(BreakerPolicy(maxConcurrent: 1))
    let busy = try breaker.acquire()
    try breaker.hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    for _ in 0..<2 {
      let error = #expect(throws: BreakerError.self) { try breaker.run {} }
      #expect(error?.rejection?.cause == .busy)
    }
    busy.succeed()
    try breaker.run {}
    #expect(breaker.snapshot().hold == nil)
  }

  @Test func `a hold outlives a reboot`() throws {
    try breaker().hold(for: .seconds(60), reason: "quota")
    host.reboot(after: .seconds(20))
    let breaker = try breaker()
    #expect(breaker.snapshot().hold?.endsIn == .seconds(40))
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .seconds(40))
    try breaker.run {}
  }

  @Test func `a backup has what is left of a hold`() throws {
    let breaker = try breaker()
    try breaker.hold(for: .seconds(60), reason: "quota")
    host.clock.advance(by: .seconds(15))
    let backup = breaker.snapshot().backup
    let text = backup.json(at: host.clock.storeClock.wallTime)
    let read = try BreakerBackup(json: text, at: host.clock.storeClock.wallTime)
    #expect(read.holdFor == .seconds(45) && read.holdReason == "quota")
    let other = TestHost().store()
    try other.restore([read], replacing: false)
    #expect(try other.breaker("llm").snapshot().hold?.endsIn == .seconds(45))
    try breaker.hold(for: .seconds(600))
    try host.store().restore([read], replacing: true)
    #expect(breaker.snapshot().hold?.endsIn == .seconds(45))
    try host.store().restore([BreakerBackup(name: "llm")], replacing: true)
    #expect(breaker.snapshot().hold == nil)
  }

  @Test func `a rejection by a hold varies with jitter, but is never too early`() throws {
    let breaker = try breaker(BreakerPolicy(jitter: 0.5))
    try breaker.acquire().report(.hold(for: .seconds(60)))
    var waits: Set<Duration> = []
    for _ in 0..<50 {
      let error = #expect(throws: BreakerError.self) { try breaker.run {} }
      let wait = error?.retryAfter ?? .zero
      #expect(wait >= .seconds(60) && wait <= .seconds(90))
      waits.insert(wait)
    }
    #expect(waits.count > 25)
  }

  @Test func `a process without its store keeps to a hold, and tells the store of its own`() throws
  {
    let (alone, other) = (try breaker(), try breaker())
    try alone.run {}
    try other.run {}
    host.failStore()
    try alone.acquire().report(.hold(for: .seconds(600), reason: "HTTP 429"))
    let error = #expect(throws: BreakerError.self) { try alone.run {} }
    #expect(error?.rejection?.cause == .held)
    host.repairStore()
    host.clock.advance(by: .seconds(60))
    let later = #expect(throws: BreakerError.self) { try alone.run {} }
    #expect(later?.retryAfter == .seconds(540))
    #expect(throws: BreakerError.self) { try other.run {} }
    #expect(other.snapshot().hold?.endsIn == .seconds(540))
    #expect(other.snapshot().hold?.reason == "HTTP 429")
  }

  @Test func `a call that began without the store brings its hold when the store is back`() throws {
    let alone = try breaker()
    try alone.run {}
    host.failStore()
    try alone.run {}
    let call = try alone.acquire()
    host.repairStore()
    host.clock.advance(by: .seconds(60))
    try alone.run {}
    call.report(.hold(for: .seconds(600)))
    #expect(try breaker().snapshot().hold?.endsIn == .seconds(600))
  }

  @Test func `a probe that ends without the store holds calls until the time that was named`()
    throws
  {
    let alone = try breaker(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    try alone.trip()
    host.clock.advance(by: .seconds(1))
    let probe = try alone.acquire()
    host.failStore()
    probe.report(.hold(for: .seconds(600)))
    host.repairStore()
    host.clock.advance(by: .seconds(60))
    _ = try? alone.run {}
    let hold = try breaker().snapshot().hold
    #expect(hold?.endsIn == .seconds(540))
  }

  @Test func `a hold that was ended in the store does not come back with a process that was away`()
    throws
  {
    let (alone, other) = (try breaker(), try breaker())
    let early = try alone.acquire()
    try alone.hold(for: .seconds(600))
    #expect(throws: BreakerError.self) { try alone.run {} }
    host.failStore()
    // The process finds out, and goes on with what it knows.
    early.fail()
    #expect(throws: BreakerError.self) { try alone.run {} }
    host.repairStore()
    #expect(try other.endHold())
    host.clock.advance(by: .seconds(60))
    try alone.run {}
    #expect(other.snapshot().hold == nil)
  }
}

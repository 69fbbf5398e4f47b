import BreakerCore
import CHost
import TestSupport
import Testing

@testable import BreakerStore

/// The ring of instants: how many calls begin in any interval, whichever processes make them.
@Suite(.timeLimit(.minutes(60))) struct SlotRateTests {
  private static func terms(
    _ calls: Int, _ interval: Duration, revision: Int64 = 1, units: Int? = nil, places: Int = 0
  ) -> SlotTerms {
    SlotTerms(
      CallLimit(units ?? BreakerPolicy.mostWaiting), places: places, revision: revision,
      rate: CallRate(calls: calls, interval: interval), isRateOnly: units == nil)
  }

  @Test func `all calls of a rate may begin at once, and the next exactly an interval later`()
    throws
  {
    let host = try RatedHost()
    let (first, second) = (try host.block(4), try host.block(4))
    let terms = Self.terms(4, .seconds(60))
    for number in 0..<4 {
      #expect((number % 2 == 0 ? first : second).begins(terms))
      host.time.advance(by: 1_000)
    }
    #expect(!first.begins(terms) && !second.begins(terms))
    let wait = second.rateWait(for: CallClaim())
    #expect(wait == 59_999_996_000)
    host.time.advance(by: 60_000_000_000 - 4_001)
    #expect(!first.begins(terms))
    host.time.advance(by: 1)
    #expect(second.begins(terms))
    #expect(!first.begins(terms))
    #expect(first.rateUse?.begun == 4 && first.rateUse?.nanosecondsToNext == 1_000)
  }

  @Test func `a call that finds no slot takes no instant`() throws {
    let host = try RatedHost()
    let block = try host.block(10)
    let terms = Self.terms(10, .seconds(60), units: 1)
    let held = try #require(block.begun(terms: terms))
    #expect(block.begun(terms: terms) == nil)
    #expect(block.rateUse?.begun == 1)
    #expect(block.rateWait(for: CallClaim()) == nil)
    #expect(block.end(held))
    #expect(block.begun(terms: terms) != nil)
    #expect(block.rateUse?.begun == 2)
  }

  @Test func `a call that finds no instant gives its slot back`() throws {
    let host = try RatedHost()
    let block = try host.block(1)
    let terms = Self.terms(1, .seconds(60), units: 2)
    #expect(block.begun(terms: terms) != nil)
    #expect(block.begun(terms: terms) == nil)
    #expect(block.usage.total == 1)
    #expect(block.rateWait(for: CallClaim()) == 60_000_000_000)
  }

  @Test func `calls beyond the slots begin without one, if only a rate bounds them`() throws {
    let host = try RatedHost()
    let block = try host.block(CallRate.most)
    let terms = Self.terms(CallRate.most, .seconds(60))
    for _ in 0..<1_024 { #expect(block.begun(terms: terms) != nil) }
    #expect(block.enter(CallClaim(), terms) == .unseen)
    #expect(block.rateUse?.begun == 1_025)
  }

  @Test func `a call inside of another one takes an instant and no slot`() throws {
    let host = try RatedHost()
    let block = try host.block(2)
    let terms = Self.terms(2, .seconds(60), units: 1)
    #expect(block.begun(terms: terms) != nil)
    #expect(block.beginsInside(terms))
    #expect(!block.beginsInside(terms))
    var inside = CallClaim()
    inside.needsNoRoom = true
    #expect(block.enter(inside, terms) == .busy)
    host.time.advance(by: 60_000_000_000)
    #expect(block.enter(inside, terms) == .unseen)
    #expect(block.usage.total == 1)
  }

  @Test func `instants ahead of the clock are of another boot, and count as free`() throws {
    let host = try RatedHost()
    let block = try host.block(3)
    let terms = Self.terms(3, .seconds(60))
    for _ in 0..<3 { #expect(block.begins(terms)) }
    host.time.advance(by: -30_000_000_000)
    #expect(block.begins(terms) && block.begins(terms) && block.begins(terms))
    #expect(!block.begins(terms))
  }

  @Test func `damage of the words lets calls begin again, and the later terms win`() throws {
    let host = try RatedHost()
    let block = try host.block(3)
    let terms = Self.terms(2, .seconds(60))
    #expect(block.begins(terms))
    for word: UInt64 in [.max, 1, 0xFFFF_FFFF_FFFF, 0] {
      block.damage(.rate, to: word)
      block.damage(.ringCursor, to: word)
      _ = block.begins(terms)
      #expect(block.rateUse.map { $0.begun } == 2)
      #expect(!block.begins(terms))
    }
    let later = Self.terms(3, .seconds(60), revision: 2)
    #expect(block.begins(later))
    #expect(block.enter(CallClaim(), terms) == .outdated)
  }

  @Test func `a cursor that killed processes left behind loses no call`() throws {
    let host = try RatedHost()
    let block = try host.block(100)
    let terms = Self.terms(100, .seconds(60))
    for _ in 0..<40 { #expect(block.begins(terms)) }
    block.damage(.ringCursor, to: 5)
    for _ in 0..<60 { #expect(block.begins(terms)) }
    #expect(!block.begins(terms))
  }

  @Test func `a rate of many calls that is raised lets the others begin at once`() throws {
    let host = try RatedHost()
    let block = try host.block(300)
    for _ in 0..<130 { #expect(block.begins(Self.terms(130, .seconds(60)))) }
    #expect(!block.begins(Self.terms(130, .seconds(60))))
    let raised = Self.terms(300, .seconds(60), revision: 2)
    for _ in 0..<170 { #expect(block.begins(raised)) }
    #expect(!block.begins(raised))
    host.time.advance(by: 60_000_000_000)
    let lowered = Self.terms(100, .seconds(60), revision: 3)
    for _ in 0..<100 { #expect(block.begins(lowered)) }
    #expect(!block.begins(lowered))
  }

  @Test func `a process that has yet to reach all of the ring uses what it reaches`() throws {
    let host = try RatedHost()
    let (behind, ahead) = (try host.block(2), try host.block(5))
    let terms = Self.terms(5, .seconds(60))
    ahead.adopt(terms)
    #expect(behind.begins(terms) && behind.begins(terms) && !behind.begins(terms))
    for _ in 0..<3 { #expect(ahead.begins(terms)) }
    #expect(!ahead.begins(terms))
  }

  @Test
  func `a call inside of another one comes before those that wait for room, in the background too`()
    throws
  {
    let host = try RatedHost()
    let block = try host.block(1)
    let own = try #require(block.owners.register())
    block.adopt(Self.terms(1, .seconds(60), units: 1, places: 9))
    let outside = try #require(block.arrive(CallClaim(), own, isBrief: false))
    var claim = CallClaim(priority: .background)
    claim.needsNoRoom = true
    let inside = try #require(block.arrive(claim, own, isBrief: false))
    #expect(block.first?.index == inside.index)
    #expect(block.claim(of: inside).needsNoRoom)
    block.leave(inside)
    #expect(block.first?.index == outside.index)
    // A token does not come before others that wait for their turn.
    let token = try #require(block.arrive(claim, own, isBrief: true))
    #expect(block.first?.index == outside.index)
    block.leave(token)
    block.leave(outside)
  }

  @Test(arguments: 1...UInt64(40))
  func `any walk of calls and of changes of the number agrees with a plain log`(seed: UInt64) throws
  {
    try walk(seed) { random, calls, _ in
      calls = [1, 2, 3, 5, 8, 20].randomElement(using: &random) ?? 1
    }
  }

  @Test(arguments: 1...UInt64(40))
  func `any walk of calls and of changes of the interval agrees with a plain log`(seed: UInt64)
    throws
  {
    try walk(seed) { random, _, interval in
      interval = ([50, 100, 400].randomElement(using: &random) ?? 1) * 1_000
    }
  }

  @Test(arguments: 1...UInt64(20))
  func `any walk of bursts of many calls agrees with a plain log`(seed: UInt64) throws {
    try walk(seed, inBurstsOf: 60) { random, calls, _ in
      calls = [20, 70, 90, 200, 300].randomElement(using: &random) ?? 1
    }
  }

  @Test func `a rate that is raised while its oldest instants lie in the middle loses no call`()
    throws
  {
    let host = try RatedHost()
    let block = try host.block(1_000)
    let hour: Int64 = 3_600_000_000_000
    for _ in 0..<300 { #expect(block.begins(Self.terms(300, .seconds(3_600)))) }
    host.time.advance(by: hour)
    for _ in 0..<150 { #expect(block.begins(Self.terms(300, .seconds(3_600)))) }
    host.time.advance(by: hour / 60)
    let raised = Self.terms(1_000, .seconds(3_600), revision: 2)
    var begun = 0
    while block.begins(raised) { begun += 1 }
    #expect(begun == 850)
    #expect(block.rateWait(for: CallClaim()) == hour - hour / 60)
    // Nor does it later, as long as the order is not back.
    host.time.advance(by: hour)
    begun = 0
    while block.begins(raised) { begun += 1 }
    #expect(begun == 1_000)
    #expect(!block.rate.isUnordered)
  }

  /// Plays calls of three processes beside a log of all that have begun.
  private func walk(
    _ seed: UInt64, inBurstsOf burst: Int = 1,
    change: (inout SeededRandom, inout Int, inout Int64) -> Void
  ) throws {
    var random = SeededRandom(seed: seed)
    let host = try RatedHost()
    let blocks = try (0..<3).map { _ in try host.block(burst == 1 ? 20 : 300) }
    var (calls, interval, revision): (Int, Int64, Int64) = (5, 100_000, 1)
    var log: [Int64] = []
    for _ in 0..<(burst == 1 ? 400 : 150) {
      switch [0, 0, 0, 0, 1, 1, 2].randomElement(using: &random) {
      case 0:
        let terms = Self.terms(calls, .nanoseconds(interval), revision: revision)
        var counts = log.count { host.time.now - $0 < interval }
        for _ in 0..<burst {
          let block = blocks[Int.random(in: 0..<3, using: &random)]
          guard block.begins(terms) == (counts < calls) else {
            Issue.record("\(counts) of \(calls) count")
            return
          }
          guard counts < calls else { continue }
          log.append(host.time.now)
          counts += 1
        }
      case 1:
        host.time.advance(by: Int64([0, 1, 7, 40, 130].randomElement(using: &random) ?? 0) * 1_000)
        // No interval is as long.
        log.removeAll { host.time.now - $0 > 500_000 }
      default:
        change(&random, &calls, &interval)
        revision += 1
        let terms = Self.terms(calls, .nanoseconds(interval), revision: revision)
        blocks[Int.random(in: 0..<3, using: &random)].adopt(terms)
      }
    }
  }

  @Test func `no interval sees more calls begin, however many threads ask`() throws {
    let stage = try SlotStage()
    let (calls, interval) = (50, Duration.milliseconds(2))
    let terms = Self.terms(calls, interval)
    let spans = Guarded<[(before: Int64, after: Int64)]>([])
    let threads = Threads()
    for _ in 0..<6 {
      let block = try #require(stage.page().block(ofBreaker: 1, forCalls: calls))
      threads.start {
        var own: [(before: Int64, after: Int64)] = []
        let end = Patience.monotonicNanoseconds() + 300_000_000
        while Patience.monotonicNanoseconds() < end {
          let before = StoreClock.system.instant.nanoseconds
          if block.begins(terms) { own.append((before, StoreClock.system.instant.nanoseconds)) }
        }
        spans.withLock { $0 += own }
      }
    }
    threads.join()
    // Whatever instants lie in these spans, each is an interval after the one so many calls earlier.
    let (before, after) = spans.withLock { ($0.map(\.before).sorted(), $0.map(\.after).sorted()) }
    #expect(before.count > calls)
    for index in 0..<max(0, before.count - calls) {
      guard after[index + calls] - before[index] >= interval.inNanoseconds else {
        Issue.record("call \(index + calls) began too early")
        return
      }
    }
  }

  @Test func `callers that wait begin in order, each when its turn comes`() throws {
    let stage = try SlotStage()
    // Only one call at a time, so that each notes its number before the next one begins.
    let terms = Self.terms(2, .milliseconds(150), units: 1, places: 20)
    let block = try #require(stage.page().block(ofBreaker: 1, forCalls: 2))
    #expect(block.begins(terms) && block.begins(terms))
    let order = Guarded<[Int]>([])
    let threads = Threads()
    for number in 0..<6 {
      let own = try #require(stage.page().block(ofBreaker: 1, forCalls: 2))
      threads.start {
        let entry = own.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
        order.withLock { $0.append(number) }
        if case .begun(let held) = entry { own.end(held) }
      }
      block.untilWaiting(number + 1)
    }
    threads.join()
    #expect(order.withLock { $0 } == Array(0..<6))
    #expect(block.gate.bits & 7 == 0)
  }

  @Test func `a caller that cannot make it is turned away at once`() throws {
    let host = try RatedHost()
    let block = try host.block(1)
    let terms = Self.terms(1, .seconds(3_600), places: 20)
    #expect(block.begins(terms))
    #expect(block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(3_599))) == .busy)
  }

  @Test func `a caller that can no longer make it leaves when the rate is lowered`() throws {
    let stage = try SlotStage()
    let block = try #require(stage.page().block(ofBreaker: 1, forCalls: 1))
    let terms = Self.terms(1, .seconds(300), places: 20)
    #expect(block.begins(terms))
    let threads = Threads()
    for _ in 0..<2 {
      let own = try #require(stage.page().block(ofBreaker: 1, forCalls: 1))
      threads.start {
        #expect(own.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(900))) == .busy)
      }
    }
    block.untilWaiting(2)
    block.adopt(Self.terms(1, .seconds(3_600), revision: 2, places: 20))
    threads.join()
    #expect(block.places.isEmpty)
  }

  @Test func `a call behind one that waits for room is not told that the rate is in its way`()
    throws
  {
    let host = try RatedHost()
    let block = try host.block(100)
    let terms = Self.terms(100, .seconds(60), units: 4, places: 9)
    #expect(block.begun(terms: terms) != nil)
    let own = try #require(block.owners.own)
    let heavy = try #require(block.arrive(CallClaim(units: 4), own, isBrief: false))
    #expect(block.rateWait(for: CallClaim()) == nil)
    block.leave(heavy)
    #expect(block.rateWait(for: CallClaim()) == 0)
  }

  @Test func `an ordinary call is told of the callers before it, and not of those behind it`()
    throws
  {
    let host = try RatedHost()
    let block = try host.block(1)
    #expect(block.begins(Self.terms(1, .seconds(1), places: 9)))
    let own = try #require(block.owners.own)
    let background = CallClaim(priority: .background)
    for claim in [background, CallClaim(), background, background] {
      _ = try #require(block.arrive(claim, own, isBrief: false))
    }
    #expect(block.rateWait(for: CallClaim()) == 2_000_000_000)
    #expect(block.rateDelay(for: CallClaim()) == 2_000_000_000)
    #expect(block.rateWait(for: background) == 5_000_000_000)
  }

  @Test func `what has begun is not told of another rate than the one in force`() throws {
    let host = try RatedHost()
    let block = try host.block(5)
    #expect(block.begins(Self.terms(5, .seconds(60))))
    let use = try #require(block.rateUse)
    #expect(use.isOf(CallRate(calls: 5, interval: .seconds(60))))
    #expect(!use.isOf(CallRate(calls: 5, interval: .seconds(61))))
    #expect(!use.isOf(CallRate(calls: 6, interval: .seconds(60))))
  }

  @Test func `the first in the queue is woken if it has planned its turn too late`() throws {
    let stage = try SlotStage()
    let block = try #require(stage.page().block(ofBreaker: 1, forCalls: 1))
    #expect(block.begins(Self.terms(1, .seconds(3_600), places: 20)))
    let own = try #require(block.owners.own)
    let caller = try #require(block.arrive(CallClaim(), own, isBrief: false))
    let turn = try #require(block.planTurn(of: caller))
    var bell: UInt32 { unsafe sb_bell(block.waiter(caller.index, .bell)) }
    let planned = bell
    block.settle()
    #expect(bell == planned && block.isAsleepUntilTurn(caller.index))
    // As if another caller had been before it.
    unsafe sb_set(block.waiter(caller.index, .turn), UInt64(turn + 3_600_000_000_000))
    #expect(!block.isAsleepUntilTurn(caller.index))
    block.settle()
    #expect(bell != planned)
    block.leave(caller)
  }

  @Test func `a block that another breaker gets remembers no call of the one before`() throws {
    let stage = try SlotStage()
    let page = try stage.page()
    let block = try #require(page.block(ofBreaker: 1, forCalls: 2))
    let terms = Self.terms(2, .seconds(3_600))
    #expect(block.begins(terms) && block.begins(terms) && !block.begins(terms))
    page.releaseBlocks(before: 2, except: [])
    let next = try #require(try stage.page().block(ofBreaker: 2, forCalls: 2))
    #expect(next.begins(terms) && next.begins(terms) && !next.begins(terms))
  }
}

/// A store whose slots several processes use, with a clock that the test moves.
private struct RatedHost {
  let stage: SlotStage
  let time = Time()

  init() throws { stage = try SlotStage() }

  /// The slots as another process uses them.
  func block(_ calls: Int) throws -> SlotBlock {
    let page = SlotPage(clock: time.clock) { ProcessTable.current() }
    page.use(storePath: stage.path, store: 1, boot: 1)
    return try #require(page.block(ofBreaker: 1, forCalls: calls))
  }

  final class Time: Sendable {
    private let state = Guarded<Int64>(1_000_000_000_000)
    var now: Int64 { state.withLock { $0 } }
    func advance(by nanoseconds: Int64) { state.withLock { $0 += nanoseconds } }

    var clock: StoreClock {
      StoreClock(
        bootNanoseconds: { [self] in now }, wallMilliseconds: { 0 }, bootID: { "boot" })
    }
  }
}

extension SlotBlock {
  /// Whether a call begins that ends at once.
  fileprivate func begins(_ terms: SlotTerms) -> Bool {
    switch enter(CallClaim(), terms) {
    case .begun(let held): end(held)
    case .unseen: true
    case .busy, .unwanted, .outdated: false
    }
  }

  fileprivate func damage(_ word: HeaderWord, to value: UInt64) {
    unsafe header(word).pointee = value
  }
}

import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The attempts of the last seconds, as processes count them together.
@Suite struct AttemptTallyTests {
  /// Counters in memory, and a clock of their own.
  private final class Page {
    let counters = Counters.allocate()
    var now = Instant(nanoseconds: 1_000_000_000_000)

    deinit { counters.deallocate() }

    func succeed(_ count: Int64) {
      _ = counters.beginSecond { now }
      var counted = Counted()
      counted.successes = count
      counters.add(counted)
    }

    func noteFirsts(_ count: Int) {
      for _ in 0..<count { counters.attempts.noteFirst { now } }
    }

    /// How many retries a budget lets be sent now.
    func send(under share: BreakerPolicy.Rate) -> Int {
      var sent = 0
      while takeRetry(under: share) == nil { sent += 1 }
      return sent
    }

    func takeRetry(under share: BreakerPolicy.Rate) -> Int64? {
      counters.attempts.takeRetry(
        under: RetryBudget(share), counted: { counters.successes }, at: { now })
    }

    var recent: RecentAttempts {
      counters.attempts.recent(counted: { counters.successes }, at: { now })
    }
  }

  private let page = Page()

  @Test func `successes that were only counted and all other ends make up the attempts`() {
    page.succeed(700)
    page.noteFirsts(300)
    #expect(page.recent.firsts == 1_000)
    #expect(page.send(under: 0.2) == 200)
    #expect(page.recent.retries == 200 && page.recent.retriesInSecond == 200)
    // The retries end as well: half of them succeed, of which the marks tell.
    page.succeed(100)
    for _ in 0..<100 { page.counters.attempts.noteSuccessOfRetry { page.now } }
    #expect(page.recent.firsts == 1_000)
    #expect(page.send(under: 0.2) == 0)
  }

  @Test func `each second permits ten, and asking again makes sense in the next one`() {
    page.now = page.now.advanced(by: 250_000_000)
    #expect(page.send(under: 0.2) == 10)
    #expect(page.takeRetry(under: 0.2) == 750_000_000)
    page.now = page.now.advanced(by: 749_999_999)
    #expect(page.takeRetry(under: 0.2) == 1)
    page.now = page.now.advanced(by: 1)
    #expect(page.send(under: 0.2) == 10)
  }

  @Test func `attempts count for nine seconds after their own`() {
    page.succeed(600)
    page.noteFirsts(400)
    for second in Int64(0)..<9 {
      #expect(page.recent.firsts == 1_000, "\(second)")
      page.now = page.now.advanced(by: 1_000_000_000)
    }
    #expect(page.send(under: 0.1) == 100)
    page.now = page.now.advanced(by: 1_000_000_000)
    #expect(page.recent.firsts == 0 && page.recent.retries == 100)
    page.now = page.now.advanced(by: 9_000_000_000)
    #expect(page.recent == RecentAttempts())
  }

  @Test func `seconds far apart that share a place are told apart`() {
    page.noteFirsts(5)
    page.now = page.now.advanced(by: 16_000_000_000)
    #expect(page.recent == RecentAttempts())
    page.noteFirsts(2)
    #expect(page.recent.firsts == 2)
  }

  @Test func `a process that is late spoils no later second`() {
    let early = page.now
    page.now = early.advanced(by: 16_000_000_000)
    page.noteFirsts(3)
    var readings = [early, page.now]
    page.counters.attempts.noteFirst { readings.count > 1 ? readings.removeFirst() : page.now }
    #expect(page.recent.firsts == 4)
  }

  @Test func `threads that ask at once never send more than the budget`() {
    page.noteFirsts(1_000)
    let (counters, now) = (page.counters, page.now)
    let threads = Threads()
    let sent = Guarded(0)
    for _ in 0..<8 {
      threads.start {
        let budget = RetryBudget(0.2)
        var own = 0
        while counters.attempts.takeRetry(
          under: budget, counted: { counters.successes }, at: { now }) == nil
        { own += 1 }
        sent.withLock { $0 += own }
      }
    }
    threads.join()
    #expect(sent.withLock { $0 } == 200)
  }

  @Test(arguments: [.max, 1 << 63, 0xFFFF_FFFF, 3 << 39] as [UInt64])
  func `damaged words are forgotten after ten seconds`(damage: UInt64) {
    for word in 0..<AttemptTally.wordCount {
      unsafe page.counters.address[16 + word] = damage
    }
    page.noteFirsts(1)
    _ = page.takeRetry(under: 0.2)
    #expect(page.recent.firsts >= 0 && page.recent.retries >= 0)
    for _ in 0..<20 {
      page.now = page.now.advanced(by: 1_000_000_000)
      page.noteFirsts(1)
    }
    #expect(page.recent.firsts == 10 && page.recent.retries == 0)
    page.counters.attempts.clear()
    #expect(page.recent == RecentAttempts())
  }
}

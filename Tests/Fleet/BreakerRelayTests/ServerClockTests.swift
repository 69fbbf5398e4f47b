import BreakerRelay
import Testing

/// A host's knowledge of the server's clock.
struct ServerClockTests {
  private let start = ContinuousClock.now

  @Test(arguments: [-3_600_000, 0, 3_600_000])
  func `the known time of the server advances, however wrong its clock is`(ahead: Int64) {
    let told = 1_700_000_000_000 + ahead
    let clock = ServerClock(milliseconds: told, at: start)
    #expect(clock.now(start) == told)
    #expect(clock.now(start + .milliseconds(1)) == told + 1)
    #expect(clock.now(start + .microseconds(1_999)) == told + 1)
    #expect(clock.now(start + .seconds(86_400)) == told + 86_400_000)
  }

  @Test func `a clock that was set back is believed when it is read again`() {
    let before = ServerClock(milliseconds: 5_000_000, at: start)
    let after = ServerClock(milliseconds: 1_400_000, at: start + .seconds(1))
    #expect(before.now(start + .seconds(2)) == 5_002_000)
    #expect(after.now(start + .seconds(2)) == 1_401_000)
  }

  @Test func `a time that the server has received moves its clock forward, and never back`() {
    var clock = ServerClock(milliseconds: 1_000, at: start)
    let later = start + .seconds(1)
    clock.hasReached(1_999, at: later)
    #expect(clock.now(later) == 2_000)
    clock.hasReached(0, at: later)
    clock.hasReached(-1, at: later)
    #expect(clock.now(later) == 2_000)
    clock.hasReached(3_601_999, at: later)
    #expect(clock.now(later) == 3_601_999)
    #expect(clock.now(later + .milliseconds(1)) == 3_602_000)
  }

  @Test func `a time that makes no sense does not move the clock`() {
    var clock = ServerClock(milliseconds: 1_000, at: start)
    for time in [ServerClock.latest + 1, .max] {
      clock.hasReached(time, at: start)
      #expect(clock.now(start) == 1_000)
    }
    clock.hasReached(ServerClock.latest, at: start)
    #expect(clock.now(start) == ServerClock.latest)
  }

  @Test func `the answer to TIME is read to the millisecond`() {
    func read(_ words: String...) -> Int64? {
      ServerClock.milliseconds(.array(words.map { .bytes(Array($0.utf8)) }))
    }
    #expect(read("1700000000", "1999") == 1_700_000_000_001)
    for words in [["1700000000"], ["1", "2", "3"], ["-1", "0"], ["1", "1000000"], ["x", "0"]] {
      #expect(ServerClock.milliseconds(.array(words.map { .bytes(Array($0.utf8)) })) == nil)
    }
    #expect(read(String(ServerClock.latest), "0") == nil)
    #expect(ServerClock.milliseconds(.nothing) == nil)
  }

  @Test(
    arguments: [
      ("0", 0), ("1700000000000", 1_700_000_000_000), ("-1", nil), ("", nil), ("1.5", nil),
      ("1000000000000001", nil), ("9223372036854775808", nil),
    ] as [(String, Int64?)])
  func `a text is a time only if it makes sense`(text: String, time: Int64?) {
    #expect(ServerClock.time(text) == time)
  }
}

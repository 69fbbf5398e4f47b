import Testing
@testable import torture

/// The referee of a limit, with calls that are made up.
@Suite struct LimitRefereeTests {
  /// Lines that a referee hears, one in each nanosecond unless time passes; what begins with `!` is done to it.
  private static func referee(limit: Int = 4, reserved: Int = 0, _ text: String) -> LimitReferee {
    var referee = LimitReferee(limit: limit, reserved: reserved, at: 0)
    var now: Int64 = 0
    for line in text.split(separator: "\n") {
      now += 1
      let words = line.split(separator: " ")
      switch words[0] {
      case "!will": referee.limitWillChange(to: Int(words[1]) ?? 0, at: now)
      case "!has": referee.limitHasChanged(at: now)
      case "!lost": referee.pageIsLost(at: now)
      case "!hold":
        referee.willBeHeld()
        referee.isHeld(from: now, for: Int64(words[1]) ?? 0, since: now)
      case "!pass": now += Int64(words[1]) ?? 0
      case "!fast": referee.rateWillChange(at: now)
      case "!rate":
        referee.rateHasChanged(
          to: .init(calls: Int(words[1]) ?? 0, milliseconds: Int(words[2]) ?? 0), at: now)
      case "!closed": referee.hangUp(String(words[1]), isOwner: true)
      default: referee.hear(String(line).replacing("NOW", with: "\(now)"), at: now)
      }
    }
    return referee
  }

  private static func kinds(
    limit: Int = 4, reserved: Int = 0, _ text: String
  ) -> [Violation.Kind] {
    referee(limit: limit, reserved: reserved, text).violations.map(\.kind)
  }

  /// Three calls that take all of a limit of 4.
  private static let full = """
    want 1.1 1 ordinary NOW
    hold 1.1
    want 2.1 2 ordinary NOW
    hold 2.1
    want 3.1 1 background NOW
    hold 3.1

    """

  @Test func `calls within the limit are no violation`() {
    let referee = Self.referee(
      Self.full + "left 2.1\nwant 4.1 2 ordinary NOW\nhold 4.1\nended 2.1 ran\nended 4.2 busy")
    #expect(referee.violations.isEmpty)
    #expect(referee.begun == 4)
    #expect(referee.open == 3)
  }

  @Test func `a call that begins while calls are held is found, unless it was decided before`() {
    let early = "want 1.1 1 ordinary NOW\n!hold 9\nhold 1.1\n"
    #expect(Self.kinds(early) == [])
    let late = "want 2.1 1 ordinary NOW\n"
    #expect(Self.kinds(early + late + "hold 2.1") == [.inHold])
    #expect(Self.kinds(early + late + String(repeating: "left 1.1\n", count: 7) + "hold 2.1") == [])
  }

  /// Calls that begin at once, each in a nanosecond of its own.
  private static func calls(_ numbers: ClosedRange<Int>, retry: Bool = false) -> String {
    numbers.map {
      "want \($0).1 1 ordinary NOW\(retry ? " retry" : "")\nhold \($0).1\nleft \($0).1\nended \($0).1 ran\n"
    }
    .joined()
  }

  @Test func `calls that begin too fast are found, unless they were asked for under another rate`()
  {
    #expect(Self.kinds("!rate 2 1\n" + Self.calls(1...2)) == [])
    #expect(Self.kinds("!rate 2 1\n" + Self.calls(1...3)) == [.tooFast])
    #expect(Self.kinds("!rate 2 1\n" + Self.calls(1...2) + "!fast\n" + Self.calls(3...9)) == [])
    #expect(
      Self.kinds("!rate 1 1\n" + Self.calls(1...1) + "!fast\n!rate 2 1\n" + Self.calls(2...3)) == []
    )
    let early = "want 1.1 1 ordinary NOW\n!rate 1 1\n"
    #expect(Self.kinds(early + Self.calls(2...2) + "hold 1.1") == [])
    let lost = "!rate 2 1\n" + Self.calls(1...2) + "!lost\n"
    #expect(Self.kinds(lost + Self.calls(3...4)) == [])
    #expect(Self.kinds(lost + "!fast\n!rate 2 1\n" + Self.calls(3...9)) == [])
    #expect(
      Self.kinds(lost + "!pass 3000000000\n" + Self.calls(3...9))
        == Array(repeating: .tooFast, count: 5))
  }

  @Test func `calls in two intervals are compared with two of them`() {
    let waiting = (1...3).map { "want \($0).1 1 ordinary NOW\n" }.joined()
    let begun = (1...3).map { "hold \($0).1\n" }.joined()
    // Each may have begun a millisecond after the one before.
    #expect(Self.kinds("!rate 1 1\n" + waiting + "!pass 2000000\n" + begun) == [])
    #expect(Self.kinds("!rate 1 1\n" + waiting + "!pass 1999990\n" + begun) == [.tooFast])
  }

  @Test func `more retries than the budget are found`() {
    // Twenty in the two seconds that may be meant, and a fifth of ten attempts, with the one that made the page.
    let attempts = Self.calls(1...9)
    #expect(Self.kinds(attempts + Self.calls(11...32, retry: true)) == [])
    #expect(Self.kinds(attempts + Self.calls(11...33, retry: true)) == [.tooManyRetries])
  }

  /// Three calls that wait for the end of a hold of eight nanoseconds, and the first of them.
  private static let first = """
    !hold 8
    want 1.1 1 ordinary NOW
    want 2.1 1 ordinary NOW
    want 3.1 2 ordinary NOW
    ended 9.1 busy
    ended 9.1 busy
    ended 9.1 busy
    ended 9.1 busy
    hold 1.1

    """

  @Test func `two calls that go first are found, but not after the first one has died or hangs`() {
    #expect(Self.kinds(Self.first + "hold 2.1") == [.inHold, .inRamp])
    #expect(Self.kinds(Self.first + "gone 1\nhold 2.1") == [])
    let hung = Self.first + String(repeating: "ended 9.1 busy\n", count: 8)
    // It still has its room.
    #expect(Self.kinds(hung + "hold 2.1") == [.inRamp])
  }

  @Test func `a call that may have waited since before the hold may have gone first`() {
    let older = "want 4.1 1 ordinary NOW\n" + Self.first + "hold 4.1\nhold 2.1"
    #expect(Self.kinds(older) == [.inRamp])
  }

  @Test func `more units in a ramp than have succeeded, and one, are found`() {
    let left = Self.first + "left 1.1\nended 1.1 ran\n"
    #expect(Self.kinds(left + "hold 2.1\nwant 4.1 1 ordinary NOW\nhold 4.1") == [])
    #expect(Self.kinds(left + "hold 2.1\nhold 3.1") == [.inRamp])
    #expect(Self.kinds(left + "hold 3.1") == [])
    let next = left + "hold 3.1\nleft 3.1\nended 3.1 ran\n"
    let two = "want 5.1 2 ordinary NOW\nhold 5.1\nwant 6.1 1 ordinary NOW\nhold 6.1\nhold 2.1\n"
    #expect(Self.kinds(next + two) == [])
  }

  @Test func `a unit too many is found`() {
    #expect(Self.kinds(Self.full + "want 4.1 1 ordinary NOW\nhold 4.1") == [.tooManyUnderWay])
  }

  @Test func `a call that asks for more than the limit takes all of it`() {
    let lines = "want 1.1 9 ordinary NOW\nhold 1.1\n"
    #expect(Self.kinds(lines) == [])
    #expect(Self.kinds(lines + "want 2.1 1 ordinary NOW\nhold 2.1") == [.tooManyUnderWay])
  }

  @Test func `background calls that take the units of the reserve are found`() {
    let lines = """
      want 1.1 2 background NOW
      hold 1.1
      want 2.1 1 background NOW
      hold 2.1

      """
    #expect(Self.kinds(reserved: 1, lines) == [])
    let third = "want 3.1 1 background NOW\nhold 3.1"
    #expect(Self.kinds(reserved: 1, lines + third) == [.tooManyUnderWay])
    #expect(Self.kinds(reserved: 0, lines + third) == [])
  }

  @Test func `a process counts until it is left out, and its killer says so before it dies`() {
    let heir = "want 4.1 1 ordinary NOW\nhold 4.1\n"
    let referee = Self.referee(Self.full + "gone 1\n" + heir + "hold 1.1\nended 1.1 ran\ndead 1")
    #expect(referee.violations.isEmpty)
    #expect(referee.lost == (1, 1))
    #expect(Self.kinds(Self.full + heir + "gone 1\ndead 1") == [.tooManyUnderWay])
  }

  @Test func `a process that dies by itself is found`() {
    #expect(Self.kinds(Self.full + "!closed 2.1") == [.death])
    #expect(Self.kinds(Self.full + "gone 2\n!closed 2.1") == [])
  }

  @Test func `a program that is replaced loses no call, and its next one counts again`() {
    let lines = Self.full + "replaced 2\nwant 2x1.1 1 ordinary NOW\nhold 2x1.1\n"
    let referee = Self.referee(lines + "gone 2\n!closed 2x1.1\nwant 2x1.2 1 ordinary NOW")
    #expect(referee.violations.isEmpty)
    #expect(referee.lost == (1, 2))
    #expect(Self.kinds(lines + "want 5.1 2 ordinary NOW\nhold 5.1") == [.tooManyUnderWay])
  }

  @Test func `a lowered limit binds calls that are asked for after it has changed`() {
    let lower = "!will 2\nwant 4.1 1 ordinary NOW\n!has\n"
    let lines = "want 1.1 1 ordinary NOW\nhold 1.1\nwant 2.1 2 ordinary NOW\nhold 2.1\n"
    // It was asked for while either limit may have been in force.
    #expect(Self.kinds(lines + lower + "hold 4.1") == [])
    #expect(Self.kinds(lines + lower + "want 5.1 1 ordinary NOW\nhold 5.1") == [.tooManyUnderWay])
    #expect(Self.kinds(lines + lower + "left 2.1\nwant 5.1 1 ordinary NOW\nhold 5.1") == [])
  }

  @Test func `a raised limit counts from before it is set`() {
    let more = "want 4.1 2 ordinary NOW\nhold 4.1\n"
    #expect(Self.kinds(Self.full + "!will 6\n" + more + "!has") == [])
    #expect(Self.kinds(Self.full + more + "!will 6\n!has") == [.tooManyUnderWay])
  }

  @Test func `calls from before the loss of a page, and just after it, are not judged`() {
    let lines = Self.full + "!lost\n"
    let young = "want 4.1 4 ordinary NOW\nhold 4.1\n"
    #expect(Self.kinds(lines + young) == [])
    func old(_ call: Int) -> String { "want \(call).1 3 ordinary 4000000000\nhold \(call).1\n" }
    #expect(Self.kinds(lines + young + old(5)) == [])
    #expect(Self.kinds(lines + young + old(5) + old(6)) == [.tooManyUnderWay])
  }

  @Test func `room of the dead that no call gets is found`() {
    let dead = "gone 2\ndead 2\n"
    // Then there is more under way than there was room beside the dead.
    let taken = "want 4.1 1 ordinary NOW\nhold 4.1\nwant 5.1 1 ordinary NOW\nhold 5.1\n"
    let left = "left 1.1\nended 1.1 ran\n"
    for (lines, found) in [(dead + left, [Violation.Kind.lostRoom]), (dead + taken + left, [])] {
      var referee = Self.referee(Self.full + lines)
      for call in 0..<600 {
        let now = Int64(call) * 10_000_000
        for line in ["want 9.\(call) 1 ordinary \(now)", "hold 9.\(call)", "left 9.\(call)"] {
          referee.hear(line, at: now)
        }
        referee.hear("ended 9.\(call) ran", at: now)
      }
      #expect(referee.violations.map(\.kind) == found)
    }
  }

  @Test func `a call that all others overtake is found`() {
    for (excuse, calls, found) in [
      ({ (_: inout LimitReferee) in }, 1_300, [Violation.Kind.starved]),
      ({ $0.stop("1") }, 1_500, []),
      // It goes over to the next page when its process has noticed that, and comes behind others there.
      ({ $0.pageIsLost(at: 3) }, 1_300, []),
      ({ $0.pageIsLost(at: 3) }, 1_500, [.starved]),
    ] {
      var referee = Self.referee("want 1.1 3 ordinary NOW\nwant 2.1 3 background NOW")
      excuse(&referee)
      for call in 0..<calls {
        let now = Int64(call) * 10_000_000
        for line in ["want 9.\(call) 1 ordinary \(now)", "hold 9.\(call)", "left 9.\(call)"] {
          referee.hear(line, at: now)
        }
        referee.hear("ended 9.\(call) ran", at: now)
      }
      #expect(referee.violations.map(\.kind) == found)
    }
  }

  @Test func `calls that begin out of turn are distinguished from calls that begin in order`() {
    var referee = LimitReferee(limit: 1, at: 0)
    referee.beQuiet()
    for call in ["b.1", "a.1", "c.1"] {
      referee.hear("want \(call) 1 ordinary 1", at: 2)
      referee.hear("hold \(call)", at: 3)
      referee.hear("left \(call)", at: 4)
    }
    #expect(referee.beganInQuiet == "b.1 a.1 c.1")
    #expect(referee.beganInOrder([("c.1", true), ("b.1", false), ("a.1", false)]))
    #expect(!referee.beganInOrder([("a.1", false), ("b.1", false), ("c.1", false)]))
  }

  @Test func `lost calls that are not recorded, and recorded ones that were not lost, are found`() {
    for (recorded, kinds) in [
      (0, [Violation.Kind.lostCall]), (1, []), (2, []), (3, [.inventedLoss]),
    ] {
      var referee = Self.referee(Self.full + "want 1.2 1 ordinary NOW\ngone 1\ndead 1")
      var lenient = referee
      referee.judge(lostCalls: recorded, areAll: true)
      #expect(referee.violations.map(\.kind) == kinds)
      lenient.judge(lostCalls: recorded, areAll: false)
      #expect(lenient.violations.map(\.kind) == kinds.filter { $0 != .lostCall })
    }
  }

  @Test func `an answer that makes no sense is found`() {
    #expect(Self.kinds("want 1.1 1 ordinary NOW\nended 1.1 open") == [.wrongAnswer])
    #expect(Self.kinds("want 1.1 1 ordinary NOW\nended 1.1 ran") == [.wrongAnswer])
    #expect(Self.kinds("hold 1.1") == [.wrongAnswer])
    #expect(Self.kinds("odd cbctl ended with 2") == [.wrongAnswer])
    #expect(Self.kinds("want 1.1") == [.wrongAnswer])
  }
}

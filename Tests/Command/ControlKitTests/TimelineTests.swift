import BreakerCore
import SharedBreaker
import Testing

@testable import ControlKit

/// The timeline of a breaker, from its history and its snapshot.
@Suite struct TimelineTests {
  typealias Kind = BreakerChange.Kind

  private static let now = BreakerTimestamp(millisecondsSince1970: Samples.now.wallMilliseconds)
  private static let dayAgo = now.earlier(by: .seconds(86_400))

  /// An entry of the history from so many seconds ago.
  private static func entry(_ ago: Int64, _ kind: Kind, _ from: String, _ to: String)
    -> HistoryEntry
  { Samples.entry(kind, from: from, to: to, secondsAgo: ago) }

  private static func timeline(
    _ history: [HistoryEntry], from start: BreakerTimestamp = dayAgo,
    _ change: (inout BreakerRecord) -> Void = { _ in }
  ) -> Timeline {
    let snapshot = Samples.breaker("x", madeSecondsAgo: 40_000, change)
    return Timeline(of: snapshot, history: history, from: start, to: now)
  }

  private static func words(_ timeline: Timeline) -> [String] {
    timeline.stretches.map { "\($0.course) \($0.milliseconds / 1_000)" }
  }

  @Test func `a timeline without events begins when the breaker was created`() {
    #expect(Self.words(Self.timeline([])) == ["unknown 46400", "passing 40000"])
  }

  @Test func `a timeline has a stretch for each state`() {
    let history = [
      Self.entry(300, .transition, "closed", "open"), Self.entry(200, .policy, "", "probes=2"),
      Self.entry(100, .transition, "open", "half_open"),
      Self.entry(90, .transition, "half_open", "closed"),
    ]
    let timeline = Self.timeline(history) { $0.generation = 4 }
    #expect(
      Self.words(timeline) == [
        "unknown 46400", "passing 39700", "open 200", "probing 10", "passing 90",
      ])
    #expect(timeline.extent(of: .open) == (200_000, 1))
    #expect(timeline.extent(of: .rejecting) == (0, 0))
  }

  private static func hold(endsInSeconds left: Int64, lasting length: Int64) -> Hold {
    Hold(
      until: end(inSeconds: left), lengthNanoseconds: length * 1_000_000_000,
      setAtMilliseconds: now.later(by: .seconds(left - length)).millisecondsSince1970)
  }

  @Test
  func `a timeline has a stretch for each hold, although not each of its numbers has an entry`() {
    let history = [
      Self.entry(500, .hold, "", "began"), Self.entry(400, .hold, "", "ended"),
      Self.entry(300, .hold, "", "began"), Self.entry(200, .hold, "", "prolonged"),
    ]
    let timeline = Self.timeline(history) {
      $0.generation = 9
      $0.holds.hold = Self.hold(endsInSeconds: 60, lasting: 260)
    }
    #expect(
      Self.words(timeline) == [
        "unknown 46400", "passing 39500", "held 100", "passing 100", "held 300",
      ])
    let lines = TimelineLines.render(timeline, width: 80, painter: Painter(isOn: false))
    #expect(lines.last == "held for 6m 40s in 2 periods", "\(lines)")
  }

  @Test
  func `a breaker with holds whose first entries are gone had a state that is unknown before them`()
  {
    let trimmed = Samples.entry(.hold, from: "", to: "began", secondsAgo: 300, previous: 8)
    let timeline = Self.timeline([trimmed]) { $0.generation = 9 }
    #expect(Self.words(timeline).first?.hasPrefix("unknown 86") == true)
  }

  @Test func `a hold that is over is no longer held, even before the first call has gone`() {
    let timeline = Self.timeline([Self.entry(300, .hold, "", "began")]) {
      $0.generation = 2
      $0.holds.hold = Self.hold(endsInSeconds: -100, lasting: 200)
    }
    #expect(Self.words(timeline).suffix(2) == ["held 200", "passing 100"])
  }

  @Test func `calls are let through while a mode overrules a hold, and it cannot hide an outage`() {
    let history = [
      Self.entry(400, .hold, "", "began"), Self.entry(300, .transition, "closed", "open"),
      Self.entry(200, .reset, "open", "closed"),
      Self.entry(150, .hold, "", "began"), Self.entry(100, .mode, "automatic", "observe"),
    ]
    let timeline = Self.timeline(history) {
      $0.generation = 6
      $0.mode.mode = .observe
      $0.holds.hold = Self.hold(endsInSeconds: 100, lasting: 250)
    }
    #expect(
      Self.words(timeline).suffix(5) == [
        "held 100", "open 100", "passing 50", "held 50", "passing 100",
      ])
  }

  /// The end of the open time, in seconds from now.
  private static func end(inSeconds seconds: Int64) -> Instant {
    Samples.now.boot.advanced(by: seconds * 1_000_000_000)
  }

  @Test(
    arguments: [
      (10, ["rejecting 300"]), (0, ["rejecting 300"]), (-270, ["rejecting 30", "due 270"]),
      // If the wall clock was set meanwhile, the end can come before the beginning.
      (-400, ["due 300"]), (nil, ["open 300"]),
    ] as [(Int64?, [String])])
  func `a timeline distinguishes rejecting from due if the end of the open time is known`(
    end: Int64?, stretches: [String]
  ) {
    let timeline = Self.timeline([Self.entry(300, .transition, "closed", "open")]) {
      $0.generation = 2
      $0.state = .open
      $0.openUntil = end.map { Self.end(inSeconds: $0) }
    }
    #expect(Self.words(timeline).suffix(stretches.count) == stretches[...])
    #expect(timeline.stretches.last?.end == Self.now)
  }

  @Test func `a timeline distinguishes rejecting from due only in the last opening`() {
    let history = [
      Self.entry(3_000, .transition, "closed", "open"),
      Self.entry(2_000, .transition, "open", "half_open"),
      Self.entry(1_990, .transition, "half_open", "open"),
      Self.entry(1_000, .transition, "open", "open"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(3_000))) {
      $0.generation = 4
      $0.state = .open
      $0.openUntil = Self.end(inSeconds: -900)
    }
    #expect(
      Self.words(timeline) == ["open 1000", "probing 10", "open 990", "rejecting 100", "due 900"])
  }

  @Test func `a timeline follows the snapshot where the history is behind`() {
    let history = [
      Self.entry(300, .transition, "closed", "open"),
      Self.entry(200, .transition, "open", "half_open"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(300))) {
      $0.generation = 3
      $0.state = .open
      $0.changedAtMilliseconds = Self.now.millisecondsSince1970 - 50_000
      $0.openUntil = Self.end(inSeconds: -20)
    }
    #expect(Self.words(timeline) == ["open 100", "probing 150", "rejecting 30", "due 20"])
  }

  @Test func `a timeline ends a mode when it ran out, even if that was not recorded`() {
    let history = [Self.entry(500, .mode, "automatic", "forced_open")]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(600))) {
      $0.mode.mode = .forcedOpen
      $0.mode.until = Self.end(inSeconds: -200)
    }
    #expect(Self.words(timeline) == ["passing 100", "rejecting 300", "passing 200"])
  }

  @Test func `a timeline shows what is no longer kept as unknown`() {
    let timeline = Self.timeline([Self.entry(300, .transition, "closed", "open")]) {
      $0.generation = 40
      $0.state = .open
      $0.openUntil = Self.end(inSeconds: 1)
    }
    #expect(Self.words(timeline) == ["unknown 86100", "rejecting 300"])
    let empty = Self.timeline([]) {
      $0.generation = 40
      $0.changedAtMilliseconds = Self.now.millisecondsSince1970 - 5_000
    }
    #expect(Self.words(empty) == ["unknown 86395", "passing 5"])
  }

  @Test func `a timeline shows what a mode does to calls`() {
    let history = [
      Self.entry(500, .mode, "automatic", "forced_open"),
      Self.entry(400, .mode, "forced_open", "forced_closed"),
      Self.entry(300, .transition, "closed", "open"),
      Self.entry(200, .mode, "forced_closed", "automatic"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(600))) {
      $0.generation = 2
      $0.state = .open
      $0.openUntil = Self.end(inSeconds: 1)
    }
    #expect(
      Self.words(timeline) == [
        "passing 100", "rejecting 100", "passing 100", "passing 100", "rejecting 200",
      ])
    #expect(timeline.extent(of: .rejecting) == (300_000, 2))
  }

  @Test func `the timeline of a breaker that was deleted and created again has a gap`() {
    let history = [
      Self.entry(50_000, .transition, "closed", "open"), Self.entry(45_000, .deletion, "open", ""),
      Self.entry(10, .transition, "closed", "open"),
    ]
    let timeline = Self.timeline(history) {
      $0.generation = 2
      $0.state = .open
      $0.openUntil = Self.end(inSeconds: 1)
    }
    #expect(
      Self.words(timeline) == [
        "unknown 36400", "open 5000", "unknown 5000", "passing 39990", "rejecting 10",
      ])
  }

  @Test func `a timeline survives a wall clock that was set back`() {
    let history = [
      Self.entry(100, .transition, "closed", "open"), Self.entry(900, .reset, "open", "closed"),
      Self.entry(50, .transition, "closed", "open"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(200))) {
      $0.generation = 4
      $0.state = .open
      $0.openUntil = Self.end(inSeconds: 1)
    }
    #expect(Self.words(timeline) == ["passing 100", "passing 50", "rejecting 50"])
  }

  @Test func `a timeline in parts shows the worst of each part`() {
    let history = [
      Self.entry(299, .transition, "closed", "open"), Self.entry(298, .reset, "open", "closed"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(400))) {
      $0.generation = 3
    }
    #expect(timeline.worst(inEachOf: 4) == [.passing, .open, .passing, .passing])
    #expect(timeline.worst(inEachOf: 0).isEmpty)
    #expect(Self.timeline([]).worst(inEachOf: 2) == [.unknown, .passing])
  }

  @Test func `a timeline is drawn with the times below it in any width`() {
    let history = [
      Self.entry(36_000, .transition, "closed", "open"),
      Self.entry(34_000, .transition, "open", "half_open"),
      Self.entry(32_000, .transition, "half_open", "closed"),
    ]
    let timeline = Self.timeline(history) { $0.generation = 4 }
    let plain = Painter(isOn: false)
    for width in 20...200 {
      let lines = TimelineLines.render(timeline, width: width, painter: plain)
      #expect(width < 78 || lines.count == 4)
      for line in lines { #expect(TextWidth.of(line) <= max(width, 24), "\(line)") }
    }
    let lines = [40, 78, 158].flatMap {
      TimelineLines.render(timeline, width: $0, painter: plain)
    }
    Golden.expect(lines.joined(separator: "\n") + "\n", "timeline.txt")
    let guide = TimelineLines.render(timeline, width: 78, painter: plain).map { "  \($0)\n" }
    Golden.expect(guide.joined(), "timeline-guide.txt")
  }

  @Test func `a timeline ends a probe and a mode on time even if the end was not recorded`() {
    func instant(_ ago: Int64) -> Instant { Samples.now.boot.advanced(by: -ago * 1_000_000_000) }
    let history = [
      Self.entry(300, .transition, "closed", "open"),
      Self.entry(250, .mode, "automatic", "observe"),
      Self.entry(200, .transition, "open", "half_open"),
    ]
    func timeline(modeEnded: Int64, probeEnded: Int64) -> [String] {
      Self.words(
        Self.timeline(history, from: Self.now.earlier(by: .seconds(400))) {
          $0.generation = 3
          $0.state = .halfOpen
          $0.changedAtMilliseconds = Self.now.millisecondsSince1970 - 200_000
          $0.mode.mode = .observe
          $0.mode.until = instant(modeEnded)
          $0.leases = [
            ProbeLease(id: 1, generation: 3, owner: nil, deadline: instant(probeEnded))
          ]
        })
    }
    let before = ["passing 100", "open 50", "passing 50"]
    #expect(
      timeline(modeEnded: 150, probeEnded: 100)
        == before + ["passing 50", "probing 50", "rejecting 30", "due 70"])
    #expect(
      timeline(modeEnded: 60, probeEnded: 100)
        == before + ["passing 100", "passing 30", "passing 10", "due 60"])
  }

  @Test func `a trip of an open breaker and the end of a probe add no stretch`() {
    let history = [
      Self.entry(300, .transition, "closed", "open"),
      Self.entry(250, .extended, "open", "extended"),
      Self.entry(200, .transition, "open", "half_open"), Self.entry(150, .probe, "probe", "lost"),
    ]
    let timeline = Self.timeline(history, from: Self.now.earlier(by: .seconds(400))) {
      $0.generation = 3
      $0.state = .halfOpen
    }
    #expect(Self.words(timeline) == ["passing 100", "open 100", "probing 200"])
  }
}

import BreakerCore
import Glibc
import SharedBreaker
import Testing

@testable import ControlKit

/// Instants on the command line, in whichever time zone the tests run.
@Suite struct TimeTextTests {
  private static let now = Samples.time

  private static func hours(from first: BreakerTimestamp?, to second: BreakerTimestamp?) -> Double {
    guard let first, let second else { return .nan }
    return Double(second.millisecondsSince1970 - first.millisecondsSince1970) / 3_600_000
  }

  @Test(arguments: ["00:00", "09:00", "14:23:20", "23:59:59"])
  func `a time of day is the last one of the past, and the next one of what is to come`(
    text: String
  ) {
    let past = TimeText.past(text, now: Self.now)
    let next = TimeText.instant(text, now: Self.now)
    #expect(past.map { $0 <= Self.now } == true)
    #expect(next.map { $0 > Self.now } == true)
    // A day can have 23 or 25 hours.
    #expect((23...25).contains(Self.hours(from: past, to: next)))
  }

  @Test func `today and yesterday begin at midnight`() {
    let today = TimeText.past("today", now: Self.now)
    #expect(today == TimeText.past("00:00", now: Self.now))
    #expect(
      (23...25).contains(Self.hours(from: TimeText.past("yesterday", now: Self.now), to: today)))
  }

  @Test func `a time ago and an instant are read, and nothing else`() {
    #expect(TimeText.past("1h 30m", now: Self.now) == Self.now.earlier(by: .seconds(5_400)))
    let instant = "2026-09-20T10:00:00Z"
    #expect(TimeText.past(instant, now: Self.now)?.description == "2026-09-20T10:00:00.000Z")
    for (text, time) in [
      ("2026-09-20T12:00:00+02:00", "10:00:00.000"),
      ("2026-09-20T04:30:00.5-05:30", "10:00:00.500"),
      ("2026-09-20 10:00:00.1239+00:00", "10:00:00.123"), ("2026-09-20t10:00:00z", "10:00:00.000"),
    ] {
      #expect(TimeText.past(text, now: Self.now)?.description == "2026-09-20T\(time)Z", "\(text)")
    }
    for text in ["2026-09-20T10:00:00", "2026-09-20T10:00:00+2:00", "2026-09-20T10:00:00.Z"] {
      #expect(TimeText.past(text, now: Self.now) == nil, "\(text)")
    }
    for text in ["", "soon", "9:00", "24:00", "Yesterday", "-1h", "2026-09-20"] {
      #expect(TimeText.past(text, now: Self.now) == nil, "\(text)")
    }
  }

  @Test func `a time of day that the clock shows twice is the next one`() {
    let bench = CommandBench()
    var now = time(nil)
    // A zone whose summer time has ended ten minutes ago: what the clock shows in ten minutes, it has shown before.
    var change = unsafe tm()
    now -= 600
    unsafe gmtime_r(&now, &change)
    let start = unsafe (change.tm_yday + 180) % 365
    let end = unsafe "\(change.tm_yday)/\(change.tm_hour + 1):\(change.tm_min):\(change.tm_sec)"
    let zone = "STD0DST-1,\(start)/0,\(end)"
    now += 1_260
    unsafe gmtime_r(&now, &change)
    func padded(_ number: Int32) -> String { (number < 10 ? "0" : "") + "\(number)" }
    let soon = unsafe "\(padded(change.tm_hour)):\(padded(change.tm_min))"
    let script = #"TZ="$3" "$1" --store "$2" hold api --until "$4" --json"#
    let words = [
      "sh", "-c", script + #" >"$2.json""#, "sh", Terminal.program, bench.path, zone, soon,
    ]
    let course = CommandCourse.of(words.map { Array($0.utf8) }, timeout: .seconds(1_800))
    #expect(course.end == .exited(0))
    let text = Golden.read(bench.path + ".json") ?? ""
    let left = text.firstMatch(of: /"ends_in_ms":(\d+)/).flatMap { Int($0.1) }
    // On a very slow host the time has passed meanwhile.
    if time(nil) < now - 60 {
      #expect(left.map { $0 <= 660_000 } == true, "\(zone) \(soon): \(text)")
    }
  }

  @Test func `history and page begin where --since says`() {
    let bench = CommandBench()
    _ = bench("trip", "pay")
    bench.advance(by: 7_200_000)
    _ = bench("reset", "pay")
    #expect(bench("history", "pay", "--since", "1h").output.contains("closed -> open") == false)
    #expect(bench("history", "pay", "--since", "yesterday").output.contains("closed -> open"))
    #expect(bench("page", "--since", "yesterday").code == 0)
    let unknown = bench("history", "pay", "nay", "--since", "1h")
    #expect(unknown.code == 66 && unknown.errors.contains("nay"), "\(unknown)")
    for command in ["history", "page"] {
      let future = bench(command, "--since", "2099-01-01T00:00:00Z")
      #expect(future.code == 64 && future.errors.contains("that time has not come"), "\(future)")
      #expect(bench(command, "--since", "soon").errors.contains("use a time such as 1h, 09:00"))
    }
  }
}

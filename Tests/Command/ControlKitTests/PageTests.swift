import BreakerCore
import ProgramKit
import SharedBreaker
import Testing

@testable import ControlKit

/// The HTML page of a host's breakers.
@Suite struct PageTests {
  private static let now = BreakerTimestamp(millisecondsSince1970: Samples.now.wallMilliseconds)

  private static func page(
    _ snapshots: [BreakerSnapshot] = Samples.all, history: [HistoryEntry] = Samples.history,
    limit: Int = 100
  ) -> BreakersPage {
    BreakersPage(
      host: "host-1", store: "/var/lib/shared-breaker/breakers.db", now: now,
      span: .seconds(86_400), limit: limit,
      breakers: WorryOrder.sorted(snapshots).map { snapshot in
        PageBreaker(
          snapshot: snapshot, history: history.filter { $0.name == snapshot.name })
      },
      latest: history)
  }

  private static let hostile = "<script>alert('\"&\u{202e}\u{1b}[31m\n"

  @Test func `the HTML page matches its snapshot`() {
    Golden.expect(Self.page().html, "page.html")
  }

  @Test func `the fleet on the HTML page matches its snapshot`() throws {
    var page = Self.page([Samples.payments], history: [])
    let status = try RelayStatus(document: FleetSamples.document)
    page.fleet = PageFleet(
      name: status.fleet, overview: FleetOverview(of: status, isComplete: false),
      relay: "connected")
    let fleet = try #require(
      page.html.firstRange(of: "<section aria-labelledby=\"fleet\">"))
    let rest = page.html[fleet.lowerBound...]
    let end = try #require(rest.firstRange(of: "</section>"))
    Golden.expect(rest[..<end.upperBound] + "\n", "page-fleet.html")
    page.fleet?.overview = nil
    #expect(page.html.contains("<p class=\"note\">Relay of this host: connected</p>\n</section>"))
  }

  @Test func `the HTML page says so if there are no breakers`() {
    let html = Self.page([], history: []).html
    #expect(html.contains("<title>0 breakers · host-1</title>"))
    #expect(html.contains("<p>There are no breakers to show.</p>"))
  }

  @Test func `the HTML page escapes all text that comes from outside`() {
    let snapshot = Samples.breaker(Self.hostile, madeSecondsAgo: 60) { record in
      record.lastError = Self.hostile
      record.mode.mode = .observe
      record.mode.reason = Self.hostile
      record.mode.setBy = Self.hostile
    }
    var page = Self.page([snapshot], history: [Samples.hostileEntry(Self.hostile)])
    page.host = Self.hostile
    page.store = Self.hostile
    let html = page.html
    let shown = "&lt;script&gt;alert(&#39;&quot;&amp;\\u{202e}\\u{1b}[31m\\u{a}"
    // Title, heading and store; row; history twice, with name once, reason and program; details.
    #expect(html.matches(of: /&lt;script/).count == html.components(of: shown))
    #expect(html.components(of: shown) >= 12)
    #expect(!html.contains("<script"))
    #expect(!html.unicodeScalars.contains { $0 != "\n" && OutsideText.misleads($0) })
  }

  @Test func `the HTML page loads nothing and runs nothing`() {
    let html = Self.page().html
    #expect(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""))
    for match in html.matches(of: /(href|src)="([^"]*)"/) { #expect(match.2.hasPrefix("#b")) }
    #expect(!html.contains("url("))
    #expect(!html.contains("@import"))
    #expect(!html.contains("<script"))
  }

  @Test func `the HTML page has a target for every link, once`() {
    let html = Self.page().html
    let targets = html.matches(of: /id="(b\d+)"/).map { String($0.1) }
    #expect(targets.count == Samples.all.count)
    #expect(Set(targets).count == targets.count)
    for match in html.matches(of: /href="#([^"]*)"/) { #expect(targets.contains(String(match.1))) }
  }

  @Test func `the HTML page shows a deleted breaker's history without a link`() {
    let html = Self.page([Samples.payments]).html
    let cell = "<td role=\"cell\" class=\"name\">"
    #expect(html.contains("\(cell)<bdi>search</bdi></td>"))
    #expect(html.contains("\(cell)<a href=\"#b1\"><bdi>payments</bdi></a></td>"))
  }

  @Test func `the HTML page lists the newest of a long history and says there is more`() {
    let history = (0..<50).map {
      Samples.entry(.extended, from: "open", to: "extended", secondsAgo: 50 - $0)
    }
    var page = Self.page([Samples.payments], history: history, limit: 7)
    page.latest = []
    #expect(page.html.contains("History, the newest 7 of 50 entries"))
    #expect(page.html.matches(of: /<td role="cell" class="what">/).count == 7)
  }

  @Test func `every filter of the HTML page has its box, its rule and its rows`() {
    let html = Self.page().html
    let rules = html.matches(
      of: /#events:has\((#f-[a-z]+|\[value=n\d+\]):checked\) tbody tr:not\(\.([a-z0-9-]+)\)/)
    #expect(
      rules.map { String($0.2) } == ["k-outage", "k-person", "k-mode", "k-policy", "n1", "n7"])
    for rule in rules {
      let box =
        rule.1.hasPrefix("#")
        ? "id=\"\(rule.1.dropFirst())\"" : "<option value=\"\(rule.2)\">"
      #expect(html.ranges(of: box).count == 1, "\(box)")
      let rows = html.matches(of: /<tr role="row" class="([^"]*)">/).filter {
        $0.1.split(separator: " ").contains(rule.2)
      }
      #expect(!rows.isEmpty, "\(rule.2)")
    }
    // A history of one kind has no box for the others.
    let some = Self.page(history: [Samples.history[1]]).html
    #expect(some.ranges(of: "id=\"f-").count == 2)
    #expect(!Self.page(history: []).html.contains("class=\"filters\""))
  }

  @Test func `the parts of a strip on the HTML page cover it`() {
    let history = [
      Samples.entry(.transition, from: "closed", to: "open", secondsAgo: 3_600),
      Samples.entry(.transition, from: "open", to: "half_open", secondsAgo: 1_800),
      Samples.entry(.transition, from: "half_open", to: "closed", secondsAgo: 1_790),
    ]
    let snapshot = Samples.breaker("payments", madeSecondsAgo: 7_200) { $0.generation = 4 }
    let timeline = Timeline(
      of: snapshot, history: history, from: Self.now.earlier(by: .seconds(14_400)), to: Self.now)
    let strip = PageTimeline(timeline: timeline, subject: "Last 4h")
    #expect(
      strip.words
        == "open for 30m in 1 period, probed for 10s in 1 period, let through for 1h 30m, "
        + "unknown for 2h")
    let widths = strip.html.text.matches(of: /h(\d+)v/).compactMap { Int($0.1) }
    #expect(widths.reduce(0, +) == 240)
    #expect(strip.html.text.contains("role=\"img\"><title>Last 4h: open for 30m"))
  }

  @Test func `the HTML page grows by less than 5,000 bytes for each breaker`() {
    let history = (0..<8).map {
      Samples.entry(.transition, from: "closed", to: "open", secondsAgo: 50 - $0)
    }
    let one = Self.page([Samples.payments], history: history).html.utf8.count
    let two = Self.page([Samples.payments, Samples.payments], history: history).html.utf8.count
    // A page of a thousand breakers with eight entries each is below five megabytes.
    #expect(two - one < 5_000)
  }
}

extension String {
  fileprivate func components(of part: String) -> Int { ranges(of: part).count }
}

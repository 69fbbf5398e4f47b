import BreakerCore
import BreakerDocuments
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore
@testable import ControlKit
@testable @_spi(Command) import SharedBreaker

/// How limits are shown: the calls under way, their processes, and the waiters.
struct LimitRenderingTests {
  private static let plain = Painter(isOn: false)

  /// A breaker as it is shown, with two units under way by process 4711 and one by process 4712.
  private static func gpu(
    _ words: String, _ change: (inout SlotState) -> Void = { _ in }
  ) -> BreakerSnapshot {
    var state = SlotState()
    state.usage.ordinary = 3
    state.calls = [participant(4_712, seconds: 7), participant(4_711, units: 2, seconds: 200)]
    change(&state)
    return breaker("gpu", words, state)
  }

  /// The processes, as far as they can be seen.
  private static let seen: [Int32: SeenProcess] = [
    4_711: SeenProcess(program: "render"),
    4_715: SeenProcess(program: "cbctl", command: "rsync", isStopped: true),
  ]

  private static func breaker(
    _ name: String, _ words: String?, _ slots: SlotState?,
    _ change: (inout BreakerRecord) -> Void = { _ in }
  ) -> BreakerSnapshot {
    var stored = StoredBreaker(
      id: 1, name: name, createdAtMilliseconds: Samples.now.wallMilliseconds - 600_000)
    stored.words.code = words
    change(&stored.record)
    return BreakerSnapshot(
      of: stored, at: Samples.now, slots: slots, look: { seen[$0.pid] },
      isGone: { _ in false })
  }

  /// A breaker with a budget for retries, of which some have been sent.
  private static func budgeted(sent: Int64, inSecond: Int64) -> BreakerSnapshot {
    var stored = StoredBreaker(
      id: 1, name: "search", createdAtMilliseconds: Samples.now.wallMilliseconds - 600_000)
    stored.words.code = "retry-budget=20%"
    var attempts = RecentAttempts()
    (attempts.firsts, attempts.retries, attempts.retriesInSecond) = (1, sent, inSecond)
    return BreakerSnapshot(
      of: stored, at: Samples.now, attempts: attempts, isGone: { _ in false })
  }

  @Test func `a budget for retries is shown with what was sent in the last ten seconds`() {
    let free = Self.budgeted(sent: 9, inSecond: 9)
    #expect(
      Self.page(free).contains("9 for 1 first attempt in 10s; at most 20%, and 10 a second\n"))
    let used = Self.budgeted(sent: 10, inSecond: 10)
    #expect(Self.page(used).contains("; at most 20%, and 10 a second; no"))
    let document = BreakerDocument.list([used]).text
    #expect(document.contains(#""retries":{"first_attempts":1,"sent":10,"permitted":false}"#))
    let table = StatusTable(snapshots: [used, Self.all[3]], now: Samples.time)
      .render(width: 120, painter: Self.plain)
    #expect(table.contains("RETRIES") && table.contains("10/1 20%"), "\(table)")
    let unknown = Self.breaker("search", "retry-budget=20%", nil)
    #expect(LimitWords.retries(unknown) == "? 20%")
    #expect(Self.page(unknown).contains("how many were sent is"))
    #expect(
      BreakerDocument.list([unknown]).text.contains(
        #""retries":{"first_attempts":null,"sent":null,"permitted":null}"#))
  }

  private static func participant(
    _ pid: Int32?, units: Int = 1, seconds: Int64, isGone: Bool = false, isAbsent: Bool = false,
    _ priority: CallPriority = .ordinary
  ) -> SlotParticipant {
    SlotParticipant(
      process: pid.map { ProcessIdentity(pid: $0, startTicks: 1, pidNamespace: 1) },
      isGone: isGone, isAbsent: isAbsent, claim: CallClaim(units: units, priority: priority),
      nanoseconds: seconds * 1_000_000_000)
  }

  private static let words = "max-concurrent=4 queue-timeout=10m"

  private static let full = gpu(words) { state in
    state.usage.ordinary = 4
    state.calls.append(participant(4_711, seconds: 3))
    state.waiters = [participant(4_713, seconds: 2), participant(4_714, units: 2, seconds: 1)]
    // One of 0.3 ms, and one of 1.2 s.
    state.waits.counts = [1, 0, 0, 0, 1, 0, 0, 0]
    state.waits.nanoseconds = 1_200_300_000
    state.waits.abandoned = 1
  }

  static let all = [
    full, breaker("link", "max-concurrent=2", SlotState()),
    breaker("model", "max-concurrent=8 queue-timeout=30s", nil), breaker("search", nil, nil),
  ]

  private static func table(_ snapshots: [BreakerSnapshot], width: Int?) -> String {
    StatusTable(snapshots: snapshots, now: width.map { _ in Samples.time })
      .render(width: width, painter: plain)
  }

  @Test func `the status table with limits matches its snapshots`() {
    Golden.expect(Self.table(Self.all, width: 80), "status-limits.txt")
    Golden.expect(Self.table(Self.all, width: nil), "status-limits-pipe.txt")
  }

  @Test func `the columns of limits are there if one of the breakers has a limit`() {
    let title = { Self.table($0, width: 120).split(separator: "\n")[0] }
    #expect(title(Self.all).contains("  BUSY  QUEUE  "))
    #expect(!title([Self.all[3]]).contains("BUSY"))
    // Programs get the same columns always, with one word in each.
    for line in Self.table(Self.all, width: nil).split(separator: "\n") {
      #expect(line.split(separator: " ").count == 16, "\(line)")
    }
  }

  @Test func `a narrow terminal keeps how busy a breaker is longer than how old its state is`() {
    let text = Self.table(Self.all, width: 40)
    for line in text.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 40, "\(line)") }
    #expect(text.contains("  4/4"))
    #expect(!text.contains("FOR"))
  }

  @Test func `an unknown number is a question mark, and never a zero`() {
    let unknown = Self.all[2]
    #expect(LimitWords.busy(unknown) == "?/8")
    #expect(LimitWords.queue(unknown) == "?")
    #expect(LimitWords.obstacle(unknown) == nil)
    #expect(unknown.hasRoom == nil)
    let json = BreakerDocument.list([unknown]).text
    #expect(
      json.contains(#""limit":{"units":8,"in_use":null,"waiting":null,"room":null,"waits":null}"#))
    #expect(Self.page(unknown).contains("how many are under way is not known"))
    #expect(AwaitedState.free.holds(for: CallOutlook(snapshot: unknown)))
    #expect(LimitWords.busy(Self.all[3]) == nil)
    #expect(BreakerDocument.list([Self.all[3]]).text.contains(#""limit":null"#))
  }

  /// A breaker in a ramp that ends in eight seconds, with two units under way of the three that may be.
  private static func ramping(_ words: String) -> BreakerSnapshot {
    var state = SlotState()
    state.usage.ordinary = 2
    state.rampAllowance = RampAllowance(succeeded: 2)
    return breaker("api", "ramp-up=10s \(words)", state) { record in
      record.rampUntil = Samples.now.boot.advanced(by: 8_000_000_000)
    }
  }

  @Test func `a ramp is shown with what is left of it, and with how much may be under way`() {
    let free = Self.ramping("")
    let table = StatusTable(snapshots: [free, Self.all[3]], now: Samples.time)
      .render(width: 120, painter: Self.plain)
    #expect(table.contains("RAMP") && table.contains("8s") && table.contains("2/3"))
    let facts = Self.page(free)
    #expect(facts.contains("ramping up for another 8s"))
    #expect(facts.contains("at most 3 units under way, until it ends in 8s"))
    let document = BreakerDocument.list([free]).text
    #expect(document.contains(#""ramp":{"ends_in_ms":8000,"units":3}"#))
    #expect(document.contains(#""limit":{"units":null,"in_use":2,"waiting":0,"room":true"#))
    #expect(SummaryLine.text(of: [free], painter: Self.plain).contains("1 ramping"))
    let limited = Self.ramping("max-concurrent=2")
    #expect(LimitWords.busy(limited) == "2/2" && limited.hasRoom == false)
    #expect(
      LimitWords.obstacle(limited) == "no room: 2/2 units under way in a ramp that ends in 8s")
  }

  /// A breaker with a rate, of which so many calls have begun.
  private static func rated(_ words: String, begun: Int, nextIn seconds: Int64) -> BreakerSnapshot {
    var state = SlotState()
    state.usage.ordinary = 1
    state.rate = SlotRateUse(begun: begun, nanosecondsToNext: seconds * 1_000_000_000)
    return breaker("api", "rate=50/1m \(words)", state)
  }

  @Test func `a rate is shown with how much of it has begun, and when the next call may`() {
    let free = Self.rated("", begun: 37, nextIn: 0)
    let table = StatusTable(snapshots: [free, Self.all[3]], now: Samples.time)
      .render(width: 120, painter: Self.plain)
    #expect(table.contains("BEGUN") && table.contains("37/50 1m"))
    #expect(free.hasRoom == true && AwaitedState.free.holds(for: CallOutlook(snapshot: free)))
    #expect(
      Self.page(free).contains("37 of 50 calls have begun in 1m; the next may begin now"))
    let used = Self.rated("queue-timeout=1h", begun: 50, nextIn: 12)
    #expect(used.hasRoom == false && used.causeWithoutRoom == .rate)
    #expect(LimitWords.obstacle(used) == "50/1m have begun: the next may in 12s")
    let document = BreakerDocument.list([used]).text
    #expect(
      document.contains(#""rate":{"calls":50,"interval_ms":60000,"begun":50,"next_in_ms":12000}"#))
    let unknown = Self.breaker("api", "rate=50/1m", nil)
    #expect(LimitWords.begun(unknown) == "?/50 1m" && unknown.hasRoom == nil)
    #expect(
      BreakerDocument.list([unknown]).text.contains(
        #""rate":{"calls":50,"interval_ms":60000,"begun":null,"next_in_ms":null}"#))
    let busy = Self.rated("max-concurrent=1", begun: 3, nextIn: 0)
    #expect(busy.causeWithoutRoom == .busy)
  }

  private static func details(_ snapshot: BreakerSnapshot) -> BreakerDetails {
    BreakerDetails(snapshot: snapshot, declarations: [], history: [], now: Samples.time)
  }

  private static func page(_ snapshot: BreakerSnapshot) -> String {
    details(snapshot).page(painter: plain)
  }

  @Test func `the page of a breaker with a limit matches its snapshot`() {
    let page = Self.page(Self.full)
    Golden.expect(page, "show-limit.txt")
    for line in page.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
  }

  @Test func `the document of a breaker with a limit matches its snapshot`() {
    let document = BreakerDocument.list(of: [Self.details(Self.full).json])
    Golden.expect(document.text + "\n", "limit.json")
  }

  @Test func `the lines name callers in the background, stopped, ended or absent`() {
    let page = Self.page(
      Self.gpu("max-concurrent=4 reserve=1 queue-timeout=1m") { state in
        state.calls = [Self.participant(nil, seconds: 1, isGone: true)]
        state.waiters = [
          Self.participant(4_711, seconds: 2, .background),
          Self.participant(4_713, seconds: 2, isAbsent: true),
          Self.participant(4_715, seconds: 2),
        ]
      })
    #expect(page.contains("\n  an unknown process, 1 unit, for 1s, which has ended\n"))
    #expect(page.contains("\n  render (pid 4711), 1 unit, waiting for 2s, in the background\n"))
    #expect(page.contains("\n  rsync, via cbctl (pid 4715), 1 unit, waiting for 2s, stopped\n"))
    #expect(
      page.contains(
        "\n  pid 4713, 1 unit, waiting for 2s, which did not come for its turn\n"))
  }

  @Test func `the first of very many callers are listed`() {
    let page = Self.page(
      Self.gpu(Self.words) { state in
        state.waiters = (1...23).map { Self.participant(Int32($0), seconds: 1) }
      })
    #expect(page.contains("\n  pid 20, 1 unit, waiting for 1s\n  and 3 more\n"))
    #expect(!page.contains("pid 21"))
  }

  @Test func `there is room unless all is taken or an earlier caller waits`() {
    #expect(Self.full.hasRoom == false)
    #expect(Self.gpu(Self.words).hasRoom == true)
    #expect(Self.all[1].hasRoom == true)
    #expect(Self.all[3].hasRoom == true)
    func waiting(_ waiter: SlotParticipant) -> Bool? {
      Self.gpu(Self.words) { $0.waiters = [waiter] }.hasRoom
    }
    // A heavy call waits for more room than there is, and a light one does not overtake it.
    #expect(waiting(Self.participant(1, units: 2, seconds: 1)) == false)
    #expect(waiting(Self.participant(1, seconds: 1, .background)) == true)
    #expect(waiting(Self.participant(1, seconds: 1, isGone: true)) == true)
    #expect(waiting(Self.participant(1, seconds: 1, isAbsent: true)) == true)
  }

  @Test func `a state says that there is no room`() {
    #expect(
      StateLine.text(of: Self.full) == "gpu: closed, no room: 4/4 units under way, 2 waiting")
    #expect(StateLine.text(of: Self.gpu(Self.words)) == "gpu: closed")
    #expect(AwaitedState.free.holds(for: CallOutlook(snapshot: Self.gpu(Self.words))))
    #expect(!AwaitedState.free.holds(for: CallOutlook(snapshot: Self.full)))
    #expect(AwaitedState.permitted.holds(for: CallOutlook(snapshot: Self.full)))
    #expect(AwaitedState.free.nextLook(at: Self.full) == .milliseconds(250))
  }

  private static func html(_ snapshots: [BreakerSnapshot]) -> String {
    BreakersPage(
      host: "host", store: "store", now: Samples.time, span: .seconds(86_400), limit: 10,
      breakers: snapshots.map { PageBreaker(snapshot: $0, history: []) }, latest: []
    ).html
  }

  @Test func `an HTML page shows limits if there are any`() {
    let page = Self.html(Self.all)
    Golden.expect(page, "page-limits.html")
    #expect(page.contains(#"data-label="Busy">4/4</td>"#))
    #expect(page.contains(#"data-label="Queue">?</td>"#))
    #expect(page.contains("<li>render (pid 4711), 2 units, for 3m 20s</li>"))
    #expect(!Self.html([Self.all[3]]).contains("Busy"))
  }

  /// The classes of the columns in each row of the overview that an HTML page begins with.
  private static func columns(of page: String) -> [[String]] {
    let table = page.split(separator: "<table class=\"overview\" role=\"table\">")[1]
    return table.split(separator: "</table>")[0].split(separator: "<tr role=\"row\">").dropFirst()
      .map { row in row.matches(of: /class="(c-[a-z]+)[ "]/).map { String($0.1) } }
  }

  @Test func `the style finds each column of the overview by its name, with and without limits`() {
    let (few, many) = (Self.html([Self.all[3]]), Self.html(Self.all))
    let rated = Self.html([Self.all[3], Self.rated("", begun: 37, nextIn: 0)])
    #expect(rated.contains(#"data-label="Begun">37/50 1m</td>"#))
    let all = ["c-breaker", "c-state", "c-course", "c-busy", "c-queue", "c-trips", "c-failure"]
    #expect(Self.columns(of: many) == [[String]](repeating: all, count: 1 + Self.all.count))
    let plain = all.filter { $0 != "c-busy" && $0 != "c-queue" }
    #expect(Self.columns(of: few) == [plain, plain])
    let rules = many.split(separator: "</style>")[0].split(separator: "\n").filter {
      $0.contains(".overview")
    }
    #expect(!rules.contains { $0.contains("nth") }, "\(rules)")
    let named = rules.flatMap { $0.matches(of: /\.(c-[a-z]+)/).map { String($0.1) } }
    #expect(Set(named) == Set(all + ["c-begun", "c-retries"]))
    let budgeted = Self.html([Self.budgeted(sent: 3, inSecond: 1)])
    #expect(budgeted.contains(#"data-label="Retries">3/1 20%</td>"#))
    #expect(Self.columns(of: rated)[2] == all.dropLast(2) + ["c-begun"] + all.suffix(2))
  }

  @Test func `the metrics of a limit count waits from the shortest on`() throws {
    let report = MetricsReport(
      store: StoreFigures(now: Samples.time, breakers: 4), breakers: Self.all)
    let recorder = Recorder()
    let console = recorder.console()
    report.write(asJSON: false) { _ = console.output($0) }
    let exposition = try Exposition(recorder.output)
    func value(_ name: String, _ breaker: String = "gpu", le: String? = nil) -> Double? {
      let labels = ["name": breaker].merging(le.map { ["le": $0] } ?? [:]) { $1 }
      return exposition.values[.init(name: "shared_breaker_\(name)", labels: labels)]
    }
    #expect(value("units_in_use") == 4)
    #expect(value("limit_units") == 4)
    #expect(value("callers_waiting") == 2)
    #expect(value("wait_seconds_bucket", le: "0.001") == 1)
    #expect(value("wait_seconds_bucket", le: "1") == 1)
    #expect(value("wait_seconds_bucket", le: "10") == 2)
    #expect(value("wait_seconds_bucket", le: "+Inf") == 2)
    #expect(value("wait_seconds_count") == 2)
    #expect(value("wait_seconds_sum") == 1.2003)
    #expect(value("abandoned_waits_total") == 1)
    #expect(value("units_in_use", "model") == nil)
    #expect(value("limit_units", "model") == 8)
    #expect(value("busy_rejections_total", "model") == 0)
    for name in ["limit_units", "units_in_use", "busy_rejections_total", "lost_calls_total"] {
      #expect(value(name, "search") == nil)
    }
    let series = exposition.values.keys.count { $0.labels["name"] == "gpu" }
    #expect(series == 24 + 16)
  }
}

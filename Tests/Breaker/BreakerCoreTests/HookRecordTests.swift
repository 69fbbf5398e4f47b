import Testing

@testable import BreakerCore

/// The record of how far a hook has got.
@Suite struct HookRecordTests {
  private static let event = RecordedEvent(
    id: 8, atMilliseconds: 0, name: "api", change: .transition(from: .closed, to: .open),
    reason: nil, pid: 1, program: "test", previous: 7)

  private func request(
    _ report: HookReport.Outcome? = nil, claim: Int64 = 1, lineage: Int64 = 1
  ) -> HookRequest {
    var request = HookRequest(
      hook: "pager", name: nil, process: .worker, timeout: .seconds(60), attempts: 3)
    request.report = report.map {
      .init(event: 8, name: "api", claim: .init(lineage: lineage, number: claim), outcome: $0)
    }
    return request
  }

  /// The answer to a process at a second of a boot, in a few words.
  private func answer(
    _ record: inout HookRecord, _ request: HookRequest, at second: Int64, boot: Int64 = 1,
    gone: Set<ProcessIdentity> = []
  ) -> String {
    let now = Instant(nanoseconds: second * 1_000_000_000)
    let turn = record.answer(request, at: now, boot: boot, lineage: 1, isGone: gone.contains) {
      $0 < 8 ? Self.event : nil
    }
    return switch turn {
    case .run(_, let isAfterGap, let claim):
      "run \(claim.number)\(isAfterGap ? " after a gap" : "")"
    case .gaveUp(let event, _): "gave up \(event)"
    case .wait(let nanoseconds): "wait \(nanoseconds / 1_000_000_000)"
    case .idle: "idle"
    }
  }

  @Test func `a hook runs once for an event and moves on when its process reports success`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    #expect(answer(&record, request(), at: 10) == "wait 50")
    #expect(answer(&record, request(.handled), at: 20) == "idle")
    #expect(record.handled == 8)
    #expect(record.owner == nil)
  }

  @Test func `a hook ignores the report of a process whose time was over`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    #expect(answer(&record, request(), at: 60) == "run 2")
    #expect(record.failures == 1)
    #expect(answer(&record, request(.handled, claim: 1), at: 61) == "wait 59")
    #expect(record.handled == 7)
  }

  @Test func `a hook ignores the report of a process that ran it for another store`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    #expect(answer(&record, request(.handled, lineage: 2), at: 1) == "wait 59")
    #expect(record.handled == 7)
  }

  @Test func `a hook waits longer after each failure and then gives up`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    #expect(answer(&record, request(.failed), at: 0) == "wait 1")
    #expect(answer(&record, request(), at: 1) == "run 2")
    #expect(answer(&record, request(.failed, claim: 2), at: 1) == "wait 2")
    #expect(answer(&record, request(), at: 3) == "run 3")
    #expect(answer(&record, request(.failed, claim: 3), at: 3) == "gave up 8")
    #expect(answer(&record, request(), at: 3) == "idle")
    #expect(record.failures == 0)
  }

  @Test func `a hook gives up on an event during which too many processes have died`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    #expect(answer(&record, request(), at: 0) == "wait 60")
    #expect(answer(&record, request(), at: 0, gone: [.worker]) == "run 2")
    #expect(answer(&record, request(), at: 0, gone: [.worker]) == "run 3")
    #expect(answer(&record, request(), at: 0, gone: [.worker]) == "gave up 8")
    #expect(record.owner == nil)
  }

  @Test func `a hook is free after a reboot, and a cancelled task does not count as a failure`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 1_000) == "run 1")
    #expect(answer(&record, request(.released), at: 1_000) == "run 2")
    #expect(record.failures == 0)
    #expect(answer(&record, request(), at: 5, boot: 2) == "run 3")
  }

  @Test func `a hook knows whether entries were lost before an event`() {
    var record = HookRecord(handled: 5)
    #expect(answer(&record, request(), at: 0) == "run 1 after a gap")
    var event = Self.event
    #expect(!event.isAfterGap(since: 7, of: "api"))
    #expect(event.isAfterGap(since: 6, of: "api"))
    event.previous = nil
    #expect(!event.isAfterGap(since: 0, of: "api"))
    #expect(event.isAfterGap(since: HookRecord.nothing, of: "api"))
    event.id = 50_002
    #expect(event.isAfterGap(since: 1, of: "api"))
    #expect(!event.isAfterGap(since: 2, of: "api"))
  }

  @Test func `a hook begins with the next event, or with the oldest one if its record was lost`() {
    var first = request()
    #expect(HookRecord(for: first, newest: 7).handled == 7)
    first.hasBegun = true
    var lost = HookRecord(for: first, newest: 7)
    #expect(answer(&lost, first, at: 0) == "run 1 after a gap")
  }

  @Test func `a process that stops takes no event, and its report still counts`() {
    var record = HookRecord(handled: 7)
    #expect(answer(&record, request(), at: 0) == "run 1")
    var last = request(.released)
    last.mayRun = false
    #expect(answer(&record, last, at: 1) == "idle")
    #expect(record.owner == nil)
    #expect(answer(&record, request(), at: 1) == "run 2")
  }

  @Test func `a hook's record stays as it is if the events cannot be read`() {
    struct Unreadable: Error {}
    var record = HookRecord(handled: 7)
    let before = record
    #expect(throws: Unreadable.self) {
      try record.answer(
        request(), at: record.until, boot: 0, lineage: 1, isGone: { _ in false }
      ) { _ throws(Unreadable) in throw Unreadable() }
    }
    #expect(record == before)
  }

  @Test func `a turn names the breaker that it is about`() {
    let claim = HookClaim(lineage: 1, number: 1)
    #expect(HookTurn.run(Self.event, isAfterGap: false, claim: claim).breaker == "api")
    #expect(HookTurn.gaveUp(event: 8, name: "api").breaker == "api")
    #expect(HookTurn.wait(nanoseconds: 1).breaker == nil)
    #expect(HookTurn.idle.breaker == nil)
  }
}

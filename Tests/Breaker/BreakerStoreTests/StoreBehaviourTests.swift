@_spi(Relay) import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The rules of steps, deletion, restoring and hooks, wherever breakers are kept.
@Suite(.timeLimit(.minutes(60))) struct StoreBehaviourTests {
  @Test(arguments: StorageKind.allCases)
  func `a step makes the breaker only where it may`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    #expect(try stage.step("api", orCreate: false) { _ in Issue.record("it was asked") } == nil)
    #expect(try stage.storage.find("api") == nil)
    let made = try #require(try stage.step("api") { $0.breaker.name })
    #expect(made.answer == "api")
    let found = try #require(try stage.storage.find("api"))
    #expect(found.id == made.breaker.id && found.id > 0)
    #expect(found.revision == made.breaker.revision)
    #expect(found.usedAtMilliseconds == stage.clock.clock.wallMilliseconds)
    #expect(found.createdAtMilliseconds == stage.clock.clock.wallMilliseconds)
    #expect(try stage.storage.list(beginningWith: "a", in: nil).map(\.name) == ["api"])
    #expect(try stage.storage.list(beginningWith: "b", in: nil).isEmpty)
  }

  @Test(arguments: StorageKind.allCases)
  func `names are compared by their bytes`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    // To Swift these are equal.
    for name in ["\u{e9}", "e\u{301}"] {
      try stage.step(name) { _ in }
      var hook = HookRequest(
        hook: name, name: nil, process: ProcessTable.current(), timeout: .seconds(60), attempts: 2)
      hook.mayRun = false
      _ = try stage.storage.answer(hook)
      try stage.step(name) { $0.note(.extended, reason: nil) }
    }
    #expect(try stage.storage.list(beginningWith: "", in: nil).count == 2)
    #expect(try stage.events(of: "\u{e9}").count == 1)
    let handled = try stage.storage.read(isLong: false) { place throws(StoreError) in
      [try place.hook("\u{e9}")?.handled, try place.hook("e\u{301}")?.handled]
    }
    #expect(handled == [0, 1])
  }

  @Test(arguments: StorageKind.allCases)
  func `a step keeps what it decided, and the next one begins with it`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    for count in 1...3 as ClosedRange<Int64> {
      try stage.step("api") { $0.breaker.record.totals.failures += 1 }
      #expect(try stage.storage.find("api")?.record.totals.failures == count)
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `only a change raises the revision, and by one`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.step("other") { _ in }
    try stage.step("api") { _ in }
    let before = try stage.revision()
    try stage.step("api") { _ in }
    #expect(try stage.revision() == before)
    try stage.step("api") { $0.breaker.record.totals.ignored += 1 }
    #expect(try stage.revision() == before + 1)
    // Nothing of the breaker itself has changed.
    try stage.step("api") { $0.note(.extended, reason: nil) }
    #expect(try stage.revision() == before + 2)
    try stage.step("api") { $0.declaration = "probes=2" }
    #expect(try stage.revision() == before + 3)
    let changed = try stage.storage.changes(since: before)
    #expect(changed.breakers.map(\.name) == ["api"])
    #expect(changed.breakers.map(\.revision) == [before + 3])
  }

  @Test(arguments: StorageKind.allCases)
  func `changes by time alone are recorded before the step decides`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { draft in
      draft.apply { record, now in
        record.modeSet(to: .forcedOpen, for: .seconds(5), reason: nil, by: "ann", at: now)
      }
    }
    stage.clock.advance(by: .seconds(9))
    let mode = try stage.step("api") { draft in
      draft.note(.extended, reason: nil)
      return draft.breaker.record.mode.mode
    }
    #expect(mode?.answer == .automatic)
    let changes = try stage.events().map(\.change)
    #expect(
      changes == [
        .mode(from: .automatic, to: .forcedOpen), .mode(from: .forcedOpen, to: .automatic),
        .extended,
      ])
  }

  @Test(arguments: StorageKind.allCases)
  func `events are kept in order, each with the one before it of its breaker`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    for name in ["a", "b", "a"] {
      stage.clock.advance(by: .seconds(1))
      try stage.step(name) { $0.note(.extended, reason: name) }
    }
    let events = try stage.events()
    #expect(events.map(\.name) == ["a", "b", "a"])
    #expect(events.map(\.previous) == [nil, nil, events[0].id])
    #expect(events.map(\.program) == ["test", "test", "test"])
    #expect(try stage.events(of: "a").map(\.id) == [events[0].id, events[2].id])
    let late = try stage.storage.history(
      of: nil, sinceMilliseconds: events[1].atMilliseconds, limit: nil)
    #expect(late == Array(events[1...]))
    #expect(
      try stage.storage.history(of: nil, sinceMilliseconds: nil, limit: 1) == [events[2]])
    let batch = try stage.storage.events(after: events[0].id, of: nil, limit: 1)
    #expect(batch.events == [events[1]])
    #expect(batch.newest == events[2].id)
  }

  @Test(arguments: StorageKind.allCases)
  func `the eight latest declarations of a breaker are kept`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    for number in [1, 2, 3, 1, 4, 5, 6, 7, 8, 9] {
      stage.clock.advance(by: .seconds(1))
      try stage.step("api") { $0.declaration = "probes=\(number)" }
    }
    let kept = try stage.storage.declarations(of: "api").map(\.words)
    #expect(kept == [3, 1, 4, 5, 6, 7, 8, 9].map { "probes=\($0)" })
    #expect(try stage.storage.declarations(of: "other").isEmpty)
  }

  @Test(arguments: StorageKind.allCases)
  func `a full store refuses only what would need room`(kind: StorageKind) throws {
    let stage = try StorageStage(kind, room: 2)
    for name in ["a", "b"] { try stage.step(name) { _ in } }
    let before = try stage.picture()
    let error = #expect(throws: StoreError.self) {
      try stage.step("c") { $0.note(.extended, reason: nil) }
    }
    #expect(error?.kind == .tooManyBreakers)
    #expect(try stage.picture() == before)
    #expect(throws: StoreError.self) {
      try stage.storage.transact(
        together: [
          NamedStep("a") { $0.breaker.record.totals.failures = 7 }, NamedStep("c") { _ in },
        ], mustBeNew: false)
    }
    #expect(try stage.picture() == before)
    try stage.step("a") { $0.breaker.record.totals.failures = 7 }
    #expect(try stage.storage.find("a")?.record.totals.failures == 7)
    #expect(try stage.storage.delete("b"))
    #expect(try stage.step("c") { _ in } != nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `a transaction in which anything throws leaves nothing behind`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.hear()
    for name in ["a", "b"] { try stage.step(name) { $0.trip(for: .seconds(9)) } }
    let before = try stage.picture()
    let hook = HookRequest(
      hook: "pager", name: nil, process: ProcessTable.current(), timeout: .seconds(60),
      attempts: 2)
    let error = #expect(throws: StoreError.self) {
      try stage.storage.write(wait: .usual) { place throws(StoreError) in
        _ = try place.take("a", orCreate: true) { draft in
          draft.give(.reset)
          draft.declaration = "probes=2"
        }
        _ = try place.take("new", orCreate: true) { $0.trip(for: nil) }
        _ = try place.delete("b", ifStill: nil)
        _ = try place.answer(hook)
        var request = FleetRequest(fleet: "prod", host: "c")
        request.news = [.command(.given(.force(.observe, for: nil), to: "far", stamp: 9))]
        _ = try place.carryOut(request)
        throw StoreError(.other, "changed my mind")
      }
    }
    #expect(error?.description.contains("changed my mind") == true)
    #expect(try stage.picture() == before)
    let record = try stage.storage.read(isLong: false) { place throws(StoreError) in
      try place.hook("pager")
    }
    #expect(record == nil)
    // The next transaction begins where the one before it ended.
    let made = try stage.step("new") { $0.note(.extended, reason: nil) }
    #expect(made?.breaker.id == 3)
    #expect(try stage.events(of: "new").map(\.previous) == [nil])
  }

  @Test(arguments: StorageKind.allCases)
  func `deleting a breaker leaves its history, and one event more`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    let first = try stage.step("api") { draft in
      draft.trip(for: .seconds(60))
      draft.declaration = "probes=2"
    }
    let before = try stage.revision()
    #expect(try stage.storage.delete("api"))
    #expect(try stage.storage.delete("api") == false)
    #expect(try stage.storage.find("api") == nil)
    #expect(try stage.storage.declarations(of: "api").isEmpty)
    #expect(
      try stage.events().map(\.change) == [
        .transition(from: .closed, to: .open), .deletion(from: .open),
      ])
    let changes = try stage.storage.changes(since: before)
    #expect(changes.deletedRevision == before + 1 && changes.revision == before + 1)
    let second = try stage.step("api") { $0.breaker.record.state }
    #expect(second?.answer == .closed)
    #expect(second?.breaker.id != first?.breaker.id)
  }

  @Test(arguments: StorageKind.allCases)
  func `a breaker that has changed is not deleted as the version before`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    let old = try #require(try stage.step("api") { _ in }).breaker
    try stage.step("api") { $0.breaker.record.totals.ignored += 1 }
    let before = try stage.picture()
    #expect(try !stage.storage.delete("api", ifStill: StoredVersion(of: old)).isDeleted)
    #expect(try stage.picture() == before)
    let new = try #require(try stage.storage.find("api"))
    #expect(try stage.storage.delete("api", ifStill: StoredVersion(of: new)).isDeleted)
  }

  @Test(arguments: StorageKind.allCases)
  func `several steps in one transaction share a revision`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    try stage.step("a") { _ in }
    let before = try stage.revision()
    let done = try stage.storage.transact(
      together: [
        NamedStep("a") { $0.trip(for: nil) }, NamedStep("b") { $0.trip(for: nil) },
        NamedStep("a") { $0.note(.extended, reason: "\($0.breaker.record.state)") },
      ], mustBeNew: false)
    #expect(done.present.isEmpty)
    #expect(done.events.map(\.name) == ["a", "b", "a"])
    #expect(done.events.map { $0.events.map(\.reason) }.last == ["open"])
    #expect(try stage.storage.changes(since: before).breakers.map(\.name).sorted() == ["a", "b"])
    #expect(try stage.storage.find("b")?.revision == before + 1)
  }

  @Test(arguments: StorageKind.allCases)
  func `steps that must make new breakers name the existing ones`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    for name in ["a", "b"] { try stage.step(name) { _ in } }
    let before = try stage.picture()
    let steps = ["a", "new", "b"].map { name in NamedStep(name) { $0.trip(for: nil) } }
    #expect(try stage.storage.transact(together: steps, mustBeNew: true).present == ["a", "b"])
    #expect(try stage.picture() == before)
  }

  @Test(arguments: StorageKind.allCases)
  func `an event has to be told and kept, and so has a restore`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    func demands(_ body: (WriteTransaction) throws(StoreError) -> Void) throws -> CommitDemands {
      try stage.storage.write(wait: .usual) { place throws(StoreError) in
        try body(place)
        return place.demands
      }.answer
    }
    let quiet = try demands { place throws(StoreError) in
      _ = try place.take("api", orCreate: true) { $0.breaker.record.totals.ignored = 7 }
    }
    #expect(quiet == CommitDemands())
    let event = try demands { place throws(StoreError) in
      _ = try place.take("api", orCreate: true) { $0.note(.extended, reason: nil) }
    }
    #expect(event == .ofEvents)
    let restore = try demands { place throws(StoreError) in
      _ = try place.take(
        together: [NamedStep("new") { $0.breaker.record.totals.ignored = 7 }], mustBeNew: true)
    }
    #expect(restore == .ofEvents)
    let deletion = try demands { place throws(StoreError) in
      _ = try place.delete("new", ifStill: nil)
    }
    #expect(deletion == .ofEvents)
  }

  @Test(arguments: StorageKind.allCases)
  func `a breaker that is open after a reboot stays so for the rest of its time`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.step("api") { $0.trip(for: .seconds(60)) }
    stage.clock.advance(by: .seconds(10))
    stage.clock.reboot(after: .seconds(20))
    let now = stage.clock.clock.instant
    let record = try #require(try stage.storage.find("api")).record
    #expect(record.state == .open)
    #expect(record.openRemaining(at: now) == 30_000_000_000)
  }
}

/// Hooks, wherever breakers are kept.
@Suite(.timeLimit(.minutes(60))) struct StoreHookTests {
  private let request = HookRequest(
    hook: "pager", name: nil, process: ProcessTable.current(), timeout: .seconds(60), attempts: 2)

  /// Reports on the event of a turn.
  private func report(
    _ outcome: HookReport.Outcome, on turn: HookTurn, mayRun: Bool = true
  ) throws -> HookRequest {
    guard case .run(let event, _, let claim) = turn else { throw SupportError("\(turn)") }
    var request = request
    request.report = HookReport(event: event.id, name: event.name, claim: claim, outcome: outcome)
    request.mayRun = mayRun
    return request
  }

  @Test(arguments: StorageKind.allCases)
  func `one process at a time runs a hook, for one event after the other`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    try stage.step("early") { $0.note(.extended, reason: nil) }
    #expect(try stage.storage.answer(request) == .idle)
    for name in ["a", "b"] { try stage.step(name) { $0.note(.extended, reason: nil) } }
    let first = try stage.storage.answer(request)
    #expect(first.breaker == "a")
    #expect(try stage.storage.answer(request) == .wait(nanoseconds: 60_000_000_000))
    let second = try stage.storage.answer(try report(.handled, on: first))
    #expect(second.breaker == "b")
    #expect(try stage.storage.answer(try report(.handled, on: second)) == .idle)
    // A report that was voided changes nothing.
    #expect(try stage.storage.answer(try report(.failed, on: first)) == .idle)
  }

  @Test(arguments: StorageKind.allCases)
  func `a hook that fails too often skips the event`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    _ = try stage.storage.answer(request)
    try stage.step("a") { $0.note(.extended, reason: nil) }
    let first = try stage.storage.answer(request)
    #expect(
      try stage.storage.answer(try report(.failed, on: first)) == .wait(nanoseconds: 1_000_000_000))
    stage.clock.advance(by: .seconds(1))
    let second = try stage.storage.answer(request)
    guard case .gaveUp(_, "a") = try stage.storage.answer(try report(.failed, on: second)) else {
      Issue.record("it goes on")
      return
    }
    #expect(try stage.storage.answer(request) == .idle)
  }

  @Test(arguments: StorageKind.allCases)
  func `a hook looks only at the breaker that it is for`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    var request = request
    request.name = "b"
    _ = try stage.storage.answer(request)
    for name in ["a", "b"] { try stage.step(name) { $0.note(.extended, reason: nil) } }
    #expect(try stage.storage.answer(request).breaker == "b")
  }

  @Test(arguments: StorageKind.allCases)
  func `a turn that writes nothing raises no revision, another one that of its breaker`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    _ = try stage.storage.answer(request)
    for name in ["a", "b"] { try stage.step(name) { $0.note(.extended, reason: nil) } }
    let before = try stage.revision()
    let first = try stage.storage.answer(request)
    #expect(try stage.storage.find("a")?.revision == before + 1)
    _ = try stage.storage.answer(request)
    #expect(try stage.revision() == before + 1)
    let release = try report(.released, on: first, mayRun: false)
    let demands = try stage.storage.write(wait: .usual) { place throws(StoreError) in
      _ = try place.answer(release)
      return place.demands
    }.answer
    // Others have to be told that they may run it.
    #expect(demands.wakesListeners && !demands.mustBeDurable)
    #expect(try stage.storage.find("a")?.revision == before + 2)
  }
}

import BreakerCore
import BreakerStore
import TestSupport
import Testing

@testable import SharedBreaker

@Suite struct MemoryHistoryTests {
  private let storage: MemoryStorage
  private let engine: Engine

  init() throws {
    let clock = try Stage().clock.clock
    storage = MemoryStorage(clock: clock)
    engine = Engine(storage: storage, options: StoreOptions(clock: clock), program: "test")
  }

  private func trip(_ name: String) throws {
    _ = try engine.step(engine.cell(name)) { draft in
      let policy = draft.breaker.policy
      draft.apply { record, now in
        record.tripped(for: nil, reason: nil, at: now, policy: policy, jitter: 0)
      }
    }
  }

  private func feed(of name: String? = nil, after id: Int64? = nil) -> HistoryFeed {
    var reader = HistoryReader(name: name, after: id)
    if id == nil { reader.begin(in: storage) }
    return HistoryFeed(reader: reader, storage: storage, owner: engine)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the history of a store in memory can be followed`() async throws {
    try trip("earlier")
    let feed = feed()
    let listener = Task {
      var names: [String] = []
      for await entry in feed {
        names.append(entry.name)
        if names.count == 3 { break }
      }
      return names
    }
    for name in ["a", "b", "c"] { try trip(name) }
    #expect(await listener.value == ["a", "b", "c"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `the history in memory ends for a listener whose task is cancelled`() async throws {
    let feed = feed()
    let listener = Task {
      for await _ in feed { Issue.record("nothing has happened") }
    }
    listener.cancel()
    await listener.value
  }

  @Test(.timeLimit(.minutes(60)))
  func `the history in memory says when entries are no longer kept`() async throws {
    for _ in 0..<600 { try trip("api") }
    try trip("late")
    var all = feed(after: 0).makeAsyncIterator()
    #expect(await all.next()?.isAfterGap == true)
    #expect(await all.next()?.isAfterGap == false)
    var late = feed(of: "late", after: 0).makeAsyncIterator()
    #expect(await late.next()?.isAfterGap == false)
  }

  @Test func `the history in memory is handled by one hook at a time`() throws {
    var first = HookRequest(
      hook: "pager", name: nil, process: ProcessTable.current(), timeout: .seconds(60), attempts: 2)
    let second = first
    #expect(try storage.answer(first) == .idle)
    try trip("a")
    let event = try #require(try storage.history(of: "a", sinceMilliseconds: nil, limit: nil).first)
    guard case .run(event, isAfterGap: false, let claim) = try storage.answer(first) else {
      Issue.record("the hook is not to be run")
      return
    }
    #expect(try storage.answer(second) == .wait(nanoseconds: 60_000_000_000))
    first.report = HookReport(event: event.id, name: "a", claim: claim, outcome: .handled)
    #expect(try storage.answer(first) == .idle)
    #expect(try storage.answer(second) == .idle)
  }
}

import BreakerCore
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// A log that is long enough to be folded, used by programs that soon end, one after the other.
@Suite struct LogTests {
  private let stage: Stage

  init() throws { stage = try Stage() }

  /// Uses the store like a program that soon ends; one that is killed does not finish.
  private func brieflyOpen(
    isKilled: Bool = false, _ body: (SQLiteStorage) throws -> Void
  ) throws {
    let storage = SQLiteStorage(
      path: stage.store, lockTimeout: .seconds(20), clock: stage.clock.clock, program: "test")
    try storage.open(mayCreate: true)
    defer { storage.close() }
    try body(storage)
    if !isKilled { storage.finish() }
  }

  private func length() throws -> Int { try Files.read(stage.store + "-wal").count }

  private func make(_ names: Range<Int>, isKilled: Bool = false) throws {
    try brieflyOpen(isKilled: isKilled) { storage in
      _ = try storage.transact(
        together: names.map { number in
          NamedStep("breaker-\(number)") { draft in
            let reason = String(repeating: "x", count: 400)
            draft.note(.reset(from: .closed), reason: reason)
          }
        }, mustBeNew: true)
    }
  }

  @Test func `a long log does not grow when a program that soon ends writes to it`() throws {
    try make(0..<6_000)
    let long = try length()
    #expect(long > LogLength.limitInBytes)
    for _ in 0..<5 {
      try brieflyOpen { storage in
        _ = try storage.transact("breaker-1", orCreate: false, wait: .usual) { draft in
          draft.breaker.record.totals.failures += 1
        }
      }
      #expect(try length() == long)
    }
  }

  @Test func `a long log does not grow when programs that soon end each fail a call`() throws {
    try make(0..<6_000, isKilled: true)
    var lengths: Set<Int> = []
    for _ in 0..<5 {
      let store = stage.sharedStore()
      try? store.breaker("breaker-1").run { throw SupportError("down") }
      store.close()
      lengths.insert(try length())
    }
    #expect(lengths.count == 1)
  }

  @Test func `a log is folded while many breakers are deleted`() throws {
    try make(0..<2_000)
    try brieflyOpen { storage in
      for number in 0..<2_000 {
        _ = try storage.delete("breaker-\(number)", ifStill: nil)
      }
    }
    #expect(try length() < 2 * LogLength.limitInBytes)
  }

  @Test func `a hook that handles a backlog leaves no long log behind`() throws {
    var request = HookRequest(
      hook: "pager", name: nil, process: ProcessTable.current(), timeout: .seconds(60),
      attempts: 2)
    try brieflyOpen { storage in _ = try storage.answer(request) }
    try make(0..<2_000)
    var handled = 0
    try brieflyOpen { storage in
      while case .run(let event, _, let claim) = try storage.answer(request) {
        request.report = HookReport(
          event: event.id, name: event.name, claim: claim, outcome: .handled)
        handled += 1
      }
    }
    #expect(handled == 2_000)
    #expect(try length() < 2 * LogLength.limitInBytes)
  }
}

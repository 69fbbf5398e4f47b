import BreakerCore
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// The knowledge of a process, as a value without a store or a clock.
@Suite struct EngineStateTests {
  private let now = Moment(boot: Instant(nanoseconds: 1), wallMilliseconds: 1)

  private func known(_ name: String, revision: Int64) -> Known {
    var breaker = StoredBreaker(id: 1, name: name, createdAtMilliseconds: 0)
    breaker.revision = revision
    return Known(breaker, exists: true)
  }

  private func changes(
    to revision: Int64, deleted: Int64 = 0, continuity: Int64 = 7
  ) -> StoreChanges {
    StoreChanges(
      continuity: continuity, breakers: [], revision: revision, deletedRevision: deleted)
  }

  @Test func `a reading from before everything was forgotten is not learned`() {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    let forgettings = state.knowledge.forgettings
    state.knowledge.forgetAll()
    #expect(
      state.learn(known("api", revision: 1), of: cell, after: forgettings, keeping: true) == nil)
    #expect(state.knowledge[cell].known == nil)
    let learned = state.learn(
      known("api", revision: 1), of: cell, after: state.knowledge.forgettings, keeping: true)
    #expect(learned != nil)
    #expect(cell.word.has(CellWord.permits))
  }

  @Test func `an older reading does not take the place of a newer one`() {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    for revision in [5, 3] as [Int64] {
      _ = state.learn(
        known("api", revision: revision), of: cell, after: state.knowledge.forgettings,
        keeping: true)
    }
    #expect(state.knowledge[cell].revision == 5)
  }

  @Test func `changes vouch for every cell unless the store cannot be used`() {
    var state = EngineState()
    state.takeOver(changes(to: 1), [], since: nil, fingerprint: 42)
    #expect(state.knowledge.vouched == 42)
    #expect(state.availability.health == .connected)
    state.failed(StoreError(.inputOutput, "gone"), of: nil, at: 0)
    #expect(state.knowledge.vouched == 0)
    state.takeOver(changes(to: 2), [], since: nil, fingerprint: 43)
    #expect(state.knowledge.vouched == 0)
  }

  @Test(
    arguments: [
      // An unchanged store, a deletion, another store, and an older copy.
      (5, 0, 7, true), (5, 5, 7, false), (5, 0, 8, false), (3, 0, 7, false),
    ] as [(Int64, Int64, Int64, Bool)])
  func `changes that do not continue what was known make a process forget it`(
    revision: Int64, deleted: Int64, continuity: Int64, isContinued: Bool
  ) {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    state.takeOver(changes(to: 4), [], since: nil, fingerprint: 1)
    _ = state.learn(
      known("api", revision: 4), of: cell, after: state.knowledge.forgettings, keeping: true)
    state.takeOver(
      changes(to: revision, deleted: deleted, continuity: continuity), [],
      since: state.knowledge.baseline, fingerprint: 2)
    #expect((state.knowledge[cell].known != nil) == isContinued)
    #expect(cell.word.has(CellWord.permits) == isContinued)
  }

  @Test(
    arguments: [
      // A commit of this process right after what is known, after another one, and after everything
      // was forgotten once more.
      (5, 42, 0, 43), (6, 42, 0, 42), (5, 41, 0, 42), (5, 42, 1, 42),
    ] as [(Int64, UInt64, Int64, UInt64)])
  func `a process stays current over its own commit only if nothing came between`(
    revision: Int64, before: UInt64, laterForgettings: Int64, vouched: UInt64
  ) {
    var state = EngineState()
    state.takeOver(changes(to: 4), [], since: nil, fingerprint: 42)
    let forgettings = state.knowledge.forgettings + laterForgettings
    state.knowledge.goOn(
      over: Fingerprints(before: before, after: 43), at: revision, after: forgettings)
    #expect(state.knowledge.vouched == vouched)
  }

  @Test func `a breaker that is not in the store is known not to be there`() {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    let known = state.learnThatNobodyWrote(cell, after: state.knowledge.forgettings, at: now)
    #expect(known?.exists == false)
    // Its first call has to create it.
    #expect(!cell.word.has(CellWord.permits))
  }

  @Test func `a cell with nothing to write for two rounds leaves the outbox`() {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    state.keep(Counted(), of: cell)
    #expect(state.outbox.cells.isEmpty)
    _ = state.declare(BreakerPolicy(maxFailures: 3), for: cell)
    _ = state.declare(BreakerPolicy(maxFailures: 3), for: cell)
    #expect(state.outbox.cells.count == 1)
    state.hasDeclared("max-failures=3", for: cell, at: 1, after: state.knowledge.forgettings)
    state.outbox.forgetWritten(by: state.knowledge)
    #expect(state.outbox.cells.count == 1)
    state.outbox.forgetWritten(by: state.knowledge)
    #expect(state.outbox.cells.isEmpty)
  }

  @Test func `a declaration that a later one replaces is told once`() {
    var state = EngineState()
    let cell = state.knowledge.cell("api")
    let words = state.declare(BreakerPolicy(maxFailures: 3), for: cell)
    state.hasDeclared(words, for: cell, at: 1, after: state.knowledge.forgettings)
    var breaker = StoredBreaker(id: 1, name: "api", createdAtMilliseconds: 0)
    breaker.words.code = "max-failures=9"
    for revision in 2...3 as ClosedRange<Int64> {
      breaker.revision = revision
      _ = state.learn(
        Known(breaker, exists: true), of: cell, after: state.knowledge.forgettings, keeping: true)
    }
    #expect(
      state.takeEvents() == [
        .policyDiffers(name: "api", declaredHere: words, inForce: "max-failures=9")
      ])
    #expect(state.takeEvents().isEmpty)
  }
}

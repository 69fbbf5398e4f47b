internal import BreakerCore
internal import BreakerStore

/// One process's part in a hook, step by step: for ``SharedStore/handleHistory(as:of:timeout:attempts:_:)``,
/// and for the C library, whose callers have no tasks.
///
/// What became of an entry is only noted at first, which cannot fail. The next turn writes it and takes the next
/// entry, in one transaction. A turn that fails keeps the note for the one after it.
package struct HookPart: Sendable {
  private let engine: Engine
  private var request: HookRequest

  /// What was taken; nil once a result is noted.
  private var entry: Taken?

  /// The fork depth of the process that the entry and the note belong to.
  private var forkDepth = ForkGuard.depth

  private struct Taken {
    var id: Int64
    var name: String
    var claim: HookClaim
  }

  /// What there is to do.
  package enum Turn: Sendable {
    case run(HistoryEntry)

    /// An entry has failed too often.
    case skipped(entry: Int64, name: String)

    /// Nothing, but the next attempt is due after a time; nil if only news change that.
    case nothing(Duration?)
  }

  /// What became of an entry.
  package typealias Outcome = HookReport.Outcome

  package init(
    of store: SharedStore, hook: String, name: String?, timeout: Duration, attempts: Int
  ) {
    engine = store.engine
    request = HookRequest(
      hook: hook, name: name, process: engine.claimant(), timeout: timeout, attempts: attempts)
  }

  /// Whether an entry was taken of which no result is noted.
  package var hasEntry: Bool { entry != nil }

  /// Whether a result is noted that was not written yet.
  package var hasNote: Bool { request.report != nil }

  /// Whether the entry and the note belong to a process that this one was forked from.
  package var isParents: Bool { forkDepth != ForkGuard.depth }

  /// Notes what became of the entry.
  package mutating func note(_ outcome: Outcome) {
    guard let entry else { return }
    request.report = HookReport(
      event: entry.id, name: entry.name, claim: entry.claim, outcome: outcome)
    self.entry = nil
  }

  /// Writes what is noted, and takes the next entry if this process may run the hook.
  ///
  /// What belongs to a parent is left to it.
  package mutating func take(mayRun: Bool = true) throws(StoreError) -> Turn {
    if isParents {
      request.report = nil
      forkDepth = ForkGuard.depth
    }
    entry = nil
    request.mayRun = mayRun
    request.process = engine.claimant()
    let turn = try engine.storage.answer(request)
    request.report = nil
    request.hasBegun = true
    switch turn {
    case .run(let event, let isAfterGap, let claim):
      entry = Taken(id: event.id, name: event.name, claim: claim)
      return .run(HistoryEntry(event, isAfterGap: isAfterGap))
    case .gaveUp(let event, let name): return .skipped(entry: event, name: name)
    case .wait(let nanoseconds):
      // A process that dies closes its files, which is news, before it can be seen gone.
      return .nothing(min(.nanoseconds(nanoseconds), .seconds(1)))
    case .idle: return .nothing(nil)
    }
  }

  /// Writes what is noted, if anything, and takes no entry.
  package mutating func deliver() throws(StoreError) {
    if hasNote, !isParents { _ = try take(mayRun: false) }
  }
}

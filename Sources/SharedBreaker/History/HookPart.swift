internal import BreakerCore
internal import BreakerStore

/// One process's part in a hook, step by step, for callers that have no tasks: the C library.
package struct HookPart: Sendable {
  private let engine: Engine
  private var request: HookRequest
  private var entry: Taken?

  private struct Taken {
    var id: Int64
    var name: String
    var claim: HookClaim

    /// The fork depth of the process that took it.
    var forkDepth = ForkGuard.depth
  }

  /// What there is to do.
  package enum Turn: Sendable {
    case run(HistoryEntry)

    /// An entry has failed too often.
    case skipped

    /// Nothing, but the next attempt is due after a time; nil if only news change that.
    case nothing(Duration?)
  }

  /// Takes part in a hook; ``SharedStore/handleHistory(as:of:timeout:attempts:_:)`` explains it.
  package init(
    of store: SharedStore, hook: String, name: String?, timeout: Duration, attempts: Int
  ) {
    engine = store.engine
    request = HookRequest(
      hook: hook, name: name, process: engine.claimant(), timeout: timeout, attempts: attempts)
  }

  /// Whether an entry was taken that nothing was said about.
  package var hasEntry: Bool { entry != nil }

  /// Whether the entry belongs to a process that this one was forked from.
  package var isParents: Bool { entry.map { $0.forkDepth != ForkGuard.depth } ?? false }

  /// Takes the next entry; forgets one that a parent has taken.
  package mutating func take() throws(StoreError) -> Turn {
    entry = nil
    request.process = engine.claimant()
    let turn = try engine.storage.answer(request)
    request.hasBegun = true
    switch turn {
    case .run(let event, let isAfterGap, let claim):
      entry = Taken(id: event.id, name: event.name, claim: claim)
      return .run(HistoryEntry(event, isAfterGap: isAfterGap))
    case .gaveUp: return .skipped
    case .wait(let nanoseconds):
      // A process that dies closes its files, which is news, before it can be seen gone.
      return .nothing(min(.nanoseconds(nanoseconds), .seconds(1)))
    case .idle: return .nothing(nil)
    }
  }

  /// What became of an entry.
  package enum Result: Sendable { case handled, failed, released }

  /// Says what became of the entry; returns whether it has now failed too often.
  package mutating func report(_ result: Result) throws(StoreError) -> Bool {
    guard let entry else { return false }
    let outcome: HookReport.Outcome =
      switch result {
      case .handled: .handled
      case .failed: .failed
      case .released: .released
      }
    var request = request
    request.report = HookReport(
      event: entry.id, name: entry.name, claim: entry.claim, outcome: outcome)
    request.mayRun = false
    let turn = try engine.storage.answer(request)
    self.entry = nil
    if case .gaveUp = turn { return true }
    return false
  }
}

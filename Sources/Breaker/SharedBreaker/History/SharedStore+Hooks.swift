internal import BreakerCore
internal import BreakerStore

extension SharedStore {
  /// Runs a hook once for each entry of the history, in one of the processes that ask for it.
  ///
  /// Any number of processes may call this with the same hook name. Entries are handled in order,
  /// each by one of the processes, and never two at a time:
  ///
  /// ```swift
  /// await store.handleHistory(as: "pager") { entry in
  ///   guard entry.beginsOutage else { return }
  ///   try await page("\(entry.name) is down", deduplicatedBy: "\(entry.id)")
  /// }
  /// ```
  ///
  /// Handling begins with the first entry after the hook name is first used, here or with
  /// ``registerHook(_:)``. Entries from a time in which no process ran the hook are handled later,
  /// as far as they are still kept.
  ///
  /// - **Once or more.** An entry is handled when the hook returns. That is once, unless the
  ///   process dies while the hook runs, the hook takes longer than `timeout`, or the process
  ///   cannot write to the store afterwards. Then the hook runs again, in any of the processes. If
  ///   it must not do something twice, use the entry's `id` to recognize what is done already.
  /// - **Failures.** If the hook throws, it is tried again after a second, in any of the processes,
  ///   and then after twice as long each time, up to 32 seconds. After `attempts`, which include
  ///   those that took too long or whose process died, the entry is skipped and the observer is
  ///   notified.
  /// - **The end.** The method returns only when its task is cancelled. If the hook throws after
  ///   that, it does not count as an attempt, and the entry is left to the other processes. While
  ///   the store cannot be used, the method tries again every two seconds.
  /// - **A power cut.** That an entry is handled survives `kill -9`, but is not flushed to the
  ///   disk: after a power cut the last entries may be handled again.
  ///
  /// - Parameters:
  ///   - hook: The name of the hook, which all processes share. Use a hook name with one `name`
  ///     only.
  ///   - name: The breaker, or nil for all of them.
  ///   - timeout: How long the hook may take for one entry before another process runs it.
  ///   - attempts: How many times the hook is tried for one entry.
  ///   - body: The hook.
  public func handleHistory(
    as hook: String, of name: String? = nil, timeout: Duration = .seconds(60), attempts: Int = 5,
    _ body: (HistoryEntry) async throws -> Void
  ) async {
    let listener = Listener(to: engine.storage, of: engine)
    var part = HookPart(of: self, hook: hook, name: name, timeout: timeout, attempts: attempts)
    while true {
      let wakeUp = listener.latestWakeUp
      let mayRun = !Task.isCancelled
      if !mayRun, !part.hasNote { return }
      do throws(StoreError) {
        switch try part.take(mayRun: mayRun) {
        case .run(let entry): part.note(await outcome(of: body, for: entry))
        case .skipped(let entry, let name):
          engine.tell(.hookGaveUp(hook: hook, entry: entry, name: name))
        case .nothing(let wait): await listener.wait(after: wakeUp, atMost: wait)
        }
      } catch {
        listener.letGo(after: error)
        if !mayRun { return }
        await listener.wait(after: wakeUp, atMost: Listener.pause)
      }
    }
  }

  /// Registers a hook, so that everything that happens from now on will be handled.
  ///
  /// A hook is registered when ``handleHistory(as:of:timeout:attempts:_:)`` first runs, which a task
  /// does at a time of its own. Register it yourself where nothing may be missed until then: before a
  /// server starts its workers, and in a test:
  ///
  /// ```swift
  /// try store.registerHook("pager")
  /// let hook = Task { await store.handleHistory(as: "pager") { pages.append($0.name) } }
  /// try breaker.trip()    // This will be handled, whenever the task begins.
  /// ```
  ///
  /// A hook that is registered already is left as it is.
  ///
  /// - Parameter hook: The name of the hook, which all processes share.
  /// - Throws: `StoreError` if the store cannot be used; then the hook may not be registered.
  public func registerHook(_ hook: String) throws(StoreError) {
    // Neither the time nor the attempts matter to a turn that runs nothing.
    var part = HookPart(of: self, hook: hook, name: nil, timeout: .zero, attempts: 1)
    _ = try part.take(mayRun: false)
  }

  private func outcome(
    of body: (HistoryEntry) async throws -> Void, for entry: HistoryEntry
  ) async -> HookPart.Outcome {
    do {
      try await body(entry)
      return .handled
    } catch {
      return Task.isCancelled ? .released : .failed
    }
  }
}

/// One process's part in a hook, step by step: for ``SharedStore/handleHistory(as:of:timeout:attempts:_:)``,
/// and for the C library, whose callers have no tasks.
///
/// The result for an entry is only noted at first, which cannot fail. The next turn writes it and
/// takes the next entry, in one transaction. A turn that fails keeps the note for the one after it.
package struct HookPart: Sendable {
  private let engine: Engine
  private var request: HookRequest

  /// The entry that was taken; nil once a result is noted.
  private var entry: Taken?

  /// The fork depth of the process that the entry and the note belong to.
  private var forkDepth = ForkGuard.depth

  private struct Taken {
    var id: Int64
    var name: String
    var claim: HookClaim
  }

  /// The next action of a process that watches the hook.
  package enum Turn: Sendable {
    case run(HistoryEntry)

    /// An entry has failed too often.
    case skipped(entry: Int64, name: String)

    /// Nothing, but the next attempt is due after a time; nil if only news change that.
    case nothing(Duration?)
  }

  /// The result of the hook for an entry.
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

  /// Notes the result for the entry.
  package mutating func note(_ outcome: Outcome) {
    guard let entry else { return }
    request.report = HookReport(
      event: entry.id, name: entry.name, claim: entry.claim, outcome: outcome)
    self.entry = nil
  }

  /// Writes the noted result, and takes the next entry if this process may run the hook.
  ///
  /// An entry and a note of a parent are left to it.
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

  /// Writes the noted result, if there is one, and takes no entry.
  package mutating func deliver() throws(StoreError) {
    if hasNote, !isParents { _ = try take(mayRun: false) }
  }
}

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
  /// Handling begins with what happens after the hook name is first used. What happens while no
  /// process runs the hook is handled later, as far as it is still kept.
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

internal import BreakerCore
internal import BreakerStore

extension SharedStore {
  /// Runs a hook once for each thing that happens, in one of the processes that ask for it.
  ///
  /// Any number of processes call this with the same name: for each entry one of them runs its hook,
  /// in order, never two at a time. What happened before the name was first used is not handled; what
  /// happens while nobody handles it is handled later, as far as it is still kept.
  ///
  /// - An entry is handled when its hook returns. It is handled once, unless a process dies while the
  ///   hook runs, takes longer than the timeout, or cannot write to the store when it is done: then
  ///   another runs it again. A hook that must not do something twice goes by the entry's `id`.
  /// - If a hook throws it is tried again, here or elsewhere, a second later, and then after twice as
  ///   long each time. After so many attempts, those that ended with their process included, the
  ///   entry is passed over and the observer is told.
  /// - It goes on by itself after a time in which the store could not be used, and returns only when
  ///   its task is cancelled. A hook that throws after that has made no attempt.
  ///
  /// - Parameters:
  ///   - hook: What the processes have in common; the same name goes with the same breaker.
  ///   - name: The breaker, or nil for all of them.
  ///   - timeout: How long the hook may take for one entry before another process runs it.
  ///   - attempts: How often it is tried for one entry.
  ///   - body: The hook.
  public func handleHistory(
    as hook: String, of name: String? = nil, timeout: Duration = .seconds(60), attempts: Int = 5,
    _ body: (HistoryEntry) async throws -> Void
  ) async {
    let storage = engine.storage
    let listening = Listening(to: storage, of: engine)
    var step = HookStep(
      hook: hook, name: name, process: engine.ownProcess(), timeout: timeout, attempts: attempts)
    step.isGone = engine.options.processes.isGone
    while true {
      let call = listening.currentCall
      step.mayRun = !Task.isCancelled
      if !step.mayRun, step.report == nil { return }
      do throws(StoreError) {
        let turn = try storage.stepHook(step)
        step.report = nil
        step.hasBegun = true
        switch turn {
        case .run(let event, let isAfterGap, let claim):
          let outcome = await run(body, for: HistoryEntry(event, isAfterGap: isAfterGap))
          step.report = HookReport(
            event: event.id, name: event.name, claim: claim, outcome: outcome)
        case .gaveUp(let event, let name):
          engine.tell(.hookGaveUp(hook: hook, entry: event, name: name))
        case .wait(let nanoseconds):
          // That a process is gone may be seen a moment after its files were closed.
          let wait = min(Duration.nanoseconds(nanoseconds), .seconds(1))
          await listening.wait(after: call, atMost: wait)
        case .idle:
          await listening.wait(after: call)
        }
      } catch {
        listening.letGo(after: error)
        if !step.mayRun { return }
        await listening.wait(after: call, atMost: Listening.pause)
      }
    }
  }

  private func run(
    _ body: (HistoryEntry) async throws -> Void, for entry: HistoryEntry
  ) async -> HookReport.Outcome {
    do {
      try await body(entry)
      return .handled
    } catch {
      return Task.isCancelled ? .released : .failed
    }
  }
}

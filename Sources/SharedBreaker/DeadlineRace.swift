internal import BreakerStore

/// Work, a deadline and the caller's cancellation: what comes first counts, the rest is ignored.
final class DeadlineRace<Value: Sendable>: Sendable {
  enum Finish: Sendable {
    case finished(Result<Value, any Error>)
    case timedOut
    case cancelled
  }

  private let lock = Lock()
  private nonisolated(unsafe) var finish: Finish?
  private nonisolated(unsafe) var caller: CheckedContinuation<Finish, Never>?
  private nonisolated(unsafe) var runners: [Task<Void, Never>] = []

  /// Runs work in a task of its own, and waits for it no longer than it may take.
  static nonisolated(nonsending) func run(
    _ work: @escaping @Sendable () async throws -> Value, against timer: StoreTimer,
    _ timeout: Duration
  ) async -> Finish {
    let race = DeadlineRace()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        guard race.isOn(with: caller) else { return }
        race.add(
          Task {
            do { try await timer.sleep(for: timeout) } catch { return }
            race.end(with: .timedOut)
          })
        race.add(
          Task {
            let ending: Result<Value, any Error>
            do { ending = .success(try await work()) } catch { ending = .failure(error) }
            race.end(with: .finished(ending))
          })
      }
    } onCancel: {
      race.end(with: .cancelled)
    }
  }

  /// Whether there is anything left to run for; a cancelled caller is free at once.
  private func isOn(with caller: CheckedContinuation<Finish, Never>) -> Bool {
    let earlier = lock.withLock {
      if unsafe finish == nil { unsafe self.caller = caller }
      return unsafe finish
    }
    if let earlier { caller.resume(returning: earlier) }
    return earlier == nil
  }

  private func add(_ runner: Task<Void, Never>) {
    let isOver = lock.withLock {
      if unsafe finish == nil { unsafe runners.append(runner) }
      return unsafe finish != nil
    }
    if isOver { runner.cancel() }
  }

  private func end(with finish: Finish) {
    let (caller, runners) = lock.withLock {
      guard unsafe self.finish == nil else {
        return (nil as CheckedContinuation<Finish, Never>?, [] as [Task<Void, Never>])
      }
      unsafe self.finish = finish
      defer {
        unsafe self.caller = nil
        unsafe self.runners = []
      }
      return unsafe (self.caller, self.runners)
    }
    // The caller first: what a cancellation sets off may take its time.
    caller?.resume(returning: finish)
    for runner in runners { runner.cancel() }
  }
}

internal import BreakerStore

/// Work, a deadline and the caller's cancellation: the first to come counts, the rest is ignored.
final class DeadlineRace<Value: Sendable>: Sendable {
  enum Finish: Sendable {
    case finished(Result<Value, any Error>)
    case timedOut
    case cancelled
  }

  /// What goes on, and has to be stopped once there is a finish.
  private struct Remains {
    var takeBackDeadline: (@Sendable () -> Void)?
    var runner: Task<Void, Never>?
  }

  private let lock = Lock()
  private nonisolated(unsafe) var finish: Finish?
  private nonisolated(unsafe) var caller: CheckedContinuation<Finish, Never>?
  private nonisolated(unsafe) var remains = Remains()

  /// Runs work, if there is any, in a task of its own, and waits for it no longer than it may take.
  ///
  /// The caller is freed by the timer itself, without any of Swift's threads.
  static nonisolated(nonsending) func run(
    _ work: (@Sendable () async throws -> Value)?, against timer: StoreTimer, _ timeout: Duration
  ) async -> Finish {
    let race = DeadlineRace()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        guard race.isOn(with: caller) else { return }
        race.setDeadline(after: timeout, by: timer)
        if let work { race.begin(work) }
      }
    } onCancel: {
      let remains = race.end(with: .cancelled)
      remains.takeBackDeadline?()
      remains.runner?.cancel()
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

  private func setDeadline(after timeout: Duration, by timer: StoreTimer) {
    let takeBack = timer.call(after: timeout) {
      // What a cancellation sets off may take its time, and others wait for the timer.
      if let runner = self.end(with: .timedOut).runner { timer.callAside { runner.cancel() } }
    }
    if !keep({ $0.takeBackDeadline = takeBack }) { takeBack() }
  }

  private func begin(_ work: @escaping @Sendable () async throws -> Value) {
    guard lock.withLock({ unsafe finish == nil }) else { return }
    let runner = Task {
      let ending: Result<Value, any Error>
      do { ending = .success(try await work()) } catch { ending = .failure(error) }
      end(with: .finished(ending)).takeBackDeadline?()
    }
    if !keep({ $0.runner = runner }) { runner.cancel() }
  }

  /// Notes what goes on; false if there is a finish, so that it has to be stopped.
  private func keep(_ note: (inout Remains) -> Void) -> Bool {
    lock.withLock {
      guard unsafe finish == nil else { return false }
      unsafe note(&remains)
      return true
    }
  }

  /// Frees the caller, and answers what has to be stopped; nothing if there is a finish already.
  private func end(with finish: Finish) -> Remains {
    let (caller, remains) = lock.withLock { () -> (CheckedContinuation<Finish, Never>?, Remains) in
      guard unsafe self.finish == nil else { return (nil, Remains()) }
      unsafe self.finish = finish
      defer {
        unsafe self.caller = nil
        unsafe self.remains = Remains()
      }
      return unsafe (self.caller, self.remains)
    }
    caller?.resume(returning: finish)
    return remains
  }
}

internal import BreakerStore

/// A race between work, a deadline and a cancellation: the first one counts.
final class DeadlineRace<Value: Sendable>: Sendable {
  enum Finish: Sendable {
    case finished(Result<Value, any Error>)
    case timedOut
    case cancelled
  }

  /// What is still running, and has to be stopped once the race is decided.
  private struct Remains {
    var takeBackDeadline: (@Sendable () -> Void)?
    var runner: Task<Void, Never>?
  }

  private struct Course {
    var finish: Finish?
    var caller: CheckedContinuation<Finish, Never>?
    var remains = Remains()
  }

  private let course = Guarded(Course())

  /// Runs work, if there is any, in a task of its own, and waits for it no longer than the timeout.
  ///
  /// The timer itself resumes the caller and has `onTimeout` called, without any of Swift's threads.
  static nonisolated(nonsending) func run(
    _ work: (@Sendable () async throws -> Value)?, against timer: StoreTimer, _ timeout: Duration,
    onTimeout: (@Sendable () -> Void)? = nil
  ) async -> Finish {
    let race = DeadlineRace()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        guard race.isOn(with: caller) else { return }
        race.setDeadline(after: timeout, by: timer, onTimeout)
        if let work { race.begin(work) }
      }
    } onCancel: {
      let remains = race.end(with: .cancelled)
      remains.takeBackDeadline?()
      remains.runner?.cancel()
    }
  }

  /// Registers the caller; false if the race is decided already, as for a cancelled caller.
  private func isOn(with caller: CheckedContinuation<Finish, Never>) -> Bool {
    let earlier = course.withLock { course in
      if course.finish == nil { course.caller = caller }
      return course.finish
    }
    if let earlier { caller.resume(returning: earlier) }
    return earlier == nil
  }

  private func setDeadline(
    after timeout: Duration, by timer: StoreTimer, _ onTimeout: (@Sendable () -> Void)?
  ) {
    let takeBack = timer.call(after: timeout) {
      _ = self.end(with: .timedOut) { remains in
        // Both are code of the program that may block, and other callers wait for the timer.
        if let onTimeout { timer.callAside(onTimeout) }
        if let runner = remains.runner { timer.callAside { runner.cancel() } }
      }
    }
    if !keep({ $0.takeBackDeadline = takeBack }) { takeBack() }
  }

  private func begin(_ work: @escaping @Sendable () async throws -> Value) {
    guard course.withLock({ $0.finish == nil }) else { return }
    let runner = Task {
      let ending: Result<Value, any Error>
      do { ending = .success(try await work()) } catch { ending = .failure(error) }
      end(with: .finished(ending)).takeBackDeadline?()
    }
    if !keep({ $0.runner = runner }) { runner.cancel() }
  }

  /// Notes something that is running; false if the race is decided, so that it has to be stopped.
  private func keep(_ note: (inout Remains) -> Void) -> Bool {
    course.withLock { course in
      guard course.finish == nil else { return false }
      note(&course.remains)
      return true
    }
  }

  /// Resumes the caller and returns what has to be stopped; nothing if the race was decided before.
  ///
  /// What is to begin before the caller goes on gets what has to be stopped, too.
  private func end(with finish: Finish, before: (Remains) -> Void = { _ in }) -> Remains {
    let ended = course.withLock { course -> Course? in
      guard course.finish == nil else { return nil }
      defer { course = Course(finish: finish) }
      return course
    }
    guard let ended else { return Remains() }
    before(ended.remains)
    ended.caller?.resume(returning: finish)
    return ended.remains
  }
}

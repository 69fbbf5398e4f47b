internal import BreakerCore
internal import BreakerStore

/// Running work with a timeout.
extension Breaker {
  /// Runs asynchronous work if the breaker permits it, and gives each attempt a timeout.
  ///
  /// ```swift
  /// let receipt = try await payments.run(timeout: .seconds(2)) {
  ///   try await client.charge(order)
  /// }
  /// ```
  ///
  /// At the deadline the attempt fails, its work is cancelled, and the caller continues even if the
  /// work ignores the cancellation. Such work is abandoned, and how it ends does not matter. A
  /// caller that is cancelled continues at once too, and the outcome is ignored.
  ///
  /// Because the work may outlive its caller, it runs in its own task and not on the caller's
  /// actor. Like every task, the caller needs one of Swift's shared threads to continue. If work
  /// blocks all of them, the caller continues when the first of them is free again. Run work that
  /// blocks as a ``BreakerJob``.
  ///
  /// `onTimeout` is called when an attempt runs out of time; cancel there what Swift cannot cancel. It runs in a thread
  /// of the library, which it may block, and the caller does not wait for it. So it needs none of Swift's threads.
  ///
  /// If the last attempt took too long, the call throws ``CallTimedOut``, unless `onFailure` takes its place. A timeout
  /// is always a failure, whatever judges the errors of the call. A `probeTimeout` counts where it is longer than the
  /// timeout, and does not extend it. The other parameters, and everything else, are as for a call without a timeout.
  @discardableResult
  public nonisolated(nonsending) func run<Value: Sendable>(
    timeout: Duration,
    retry: RetryPolicy = .never,
    outcome: ErrorJudge? = nil,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    onTimeout: @escaping @Sendable () -> Void = {},
    _ work: @escaping @Sendable () async throws -> Value,
    onRejection: nonisolated(nonsending) (Rejection) async throws -> Value = { throw unmet($0) },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 },
    onFailedValue: nonisolated(nonsending) (Value) async throws -> Value = { $0 }
  ) async throws -> Value {
    let timer = engine.options.timer
    let timedOut = CallTimedOut(name: name, timeout: timeout)
    return try await run(
      retry: retry, outcome: outcome, classify: classify,
      probeTimeout: max(timeout, probeTimeout ?? .zero),
      {
        switch await DeadlineRace.run(work, against: timer, timeout, onTimeout: onTimeout) {
        case .finished(let ending): return try ending.get()
        case .cancelled: throw CancellationError()
        case .timedOut: throw timedOut
        }
      }, onRejection: onRejection, onFailure: onFailure, onFailedValue: onFailedValue)
  }
}

/// The error of a call that took longer than its timeout.
public struct CallTimedOut: Error, Sendable, Hashable, CustomStringConvertible {
  /// The name of the breaker that the call went through.
  public let name: String

  /// How long the call was allowed to take.
  public let timeout: Duration

  /// Describes a call that took longer than its timeout.
  public init(name: String, timeout: Duration) {
    self.name = name
    self.timeout = timeout
  }

  /// The call and its timeout, in one line.
  public var description: String {
    "a call through \(OutsideText.visible(name)) took longer than \(DurationText.format(timeout))"
  }
}

/// A race between work, a deadline and a cancellation: the first one counts.
final class DeadlineRace<Value: Sendable>: Sendable {
  enum Finish: Sendable {
    case finished(Result<Value, any Error>)
    case timedOut
    case cancelled
  }

  /// The parts that still run, and have to be stopped once the race is decided.
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

  /// Runs work, if there is any, in its own task, and waits for it no longer than the timeout.
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
  /// `before` gets the same, and runs before the caller goes on.
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

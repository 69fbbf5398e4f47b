@_spi(Relay) internal import BreakerCore
internal import BreakerStore

/// Holding calls by hand, and ending a hold.
///
/// A resource that works, and asks to be left alone for a time, is not failing: hold its breaker, and do not trip it.
extension Breaker {
  /// Holds the calls of every process for a time, because the resource has asked to be left alone.
  ///
  /// The state stays as it is, and no failure is counted. Until then calls are rejected with the cause
  /// ``RejectionCause/held``; then one call goes first, and its success lets the others go.
  ///
  /// ```swift
  /// try llm.hold(for: .seconds(12), reason: "x-ratelimit-remaining-requests: 0")
  /// ```
  ///
  /// If a call can tell, let its outcome say so instead: ``CallOutcome/hold(for:reason:)``. If calls are held for
  /// longer already, nothing changes.
  ///
  /// - Parameters:
  ///   - duration: How long; zero or less holds no call. `hold-max` cuts a time that is longer, unless `isOperators`.
  ///   - reason: Why, for the history, snapshots and rejections.
  ///   - isOperators: Whether an operator says so, whose word counts for up to 365 days.
  /// - Returns: The hold that is in force now; nil if there is none.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for longer than
  ///   ``StoreOptions/lockTimeout``. Then nothing has changed.
  @discardableResult public func hold(
    for duration: Duration, reason: String? = nil, isOperators: Bool = false
  ) throws(BreakerError) -> HoldSnapshot? {
    try hold(CallOutcome.Hold(.lasting(duration), reason: reason), isOperators: isOperators)
  }

  /// Holds the calls of every process until an instant of the wall clock.
  ///
  /// ``hold(for:reason:isOperators:)`` says more. An instant that has passed holds no call.
  @discardableResult public func hold(
    until time: BreakerTimestamp, reason: String? = nil, isOperators: Bool = false
  ) throws(BreakerError) -> HoldSnapshot? {
    let wish = CallOutcome.Hold(.until(time.millisecondsSince1970), reason: reason)
    return try hold(wish, isOperators: isOperators)
  }

  /// Ends a hold for every process; all calls may go then.
  ///
  /// Calls that are under way bring no hold any more.
  ///
  /// - Parameters:
  ///   - reason: Why, for the history.
  ///   - scope: Which hosts the command reaches. Each of them ends the holds that were told before it, and no host
  ///     believes an older one afterwards.
  /// - Returns: Whether there was a hold on this host.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for longer than
  ///   ``StoreOptions/lockTimeout``, and `BreakerError.noRelay` if other hosts cannot be told. Then nothing has
  ///   changed.
  @discardableResult public func endHold(
    reason: String? = nil, scope: CommandScope = .host
  ) throws(BreakerError) -> Bool {
    let command = try engine.given(.endHold, reason, scope, to: name)
    do throws(StoreError) {
      // A command to the fleet is kept with its breaker.
      return try engine.step(cell, orCreate: command != nil) { draft in
        draft.command = command
        return draft.endHold(reason: reason)
      }?.answer ?? false
    } catch {
      throw .store(error)
    }
  }

  private func hold(
    _ wish: CallOutcome.Hold, isOperators: Bool
  ) throws(BreakerError) -> HoldSnapshot? {
    let author = engine.author
    do throws(StoreError) {
      let done = try engine.step(cell) { draft in
        _ = draft.hold(for: wish, by: isOperators ? .operator(author) : .program(author))
        return draft.breaker.record.holds.hold.map { HoldSnapshot($0, at: draft.now.boot) }
      }
      return done.answer
    } catch {
      throw .store(error)
    }
  }
}

extension CallOutcome {
  /// The resource works, and asks to be left alone until an instant of the wall clock.
  ///
  /// ``hold(for:reason:)`` says more. An instant that has passed names no time.
  public static func hold(until time: BreakerTimestamp, reason: String? = nil) -> CallOutcome {
    .hold(Hold(.until(time.millisecondsSince1970), reason: reason))
  }
}

internal import BreakerCore
internal import BreakerStore
internal import Glibc

/// Something that the observer of a store is notified of.
///
/// A later version may add cases, so end a `switch` over an event with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum StoreEvent: Sendable, Hashable {
  /// The store cannot be used; reported once, until it can be used again.
  case unavailable(StoreError)

  /// The store can be used again; each breaker is in the state that the store says.
  case available

  /// A change is in the store, but it may not survive a power cut.
  case notDurable(StoreError)

  /// This process has changed the state of a breaker in the store.
  case transition(name: String, from: BreakerState, to: BreakerState, reason: String)

  /// The breaker that this process uses while it goes on alone has changed its state.
  ///
  /// No other process sees it, and no history has it. When the store is back, its state holds again.
  case transitionAlone(name: String, from: BreakerState, to: BreakerState, reason: String)

  /// A breaker has rejected a call of this process.
  ///
  /// There may be a million of these a second: do no more than count them.
  case rejected(name: String, Rejection)

  /// After this process declared its policy, other code declared a different one that is in force.
  ///
  /// Both policies are in words. `PolicyDifference(from: declaredHere, to: inForce).text()` says in
  /// which of them they differ, as in `open-for 30s -> 1m, +probes=2`.
  case policyDiffers(name: String, declaredHere: String, inForce: String)

  /// The store has no room for a breaker, which now works in this process alone; reported once.
  ///
  /// Once a second the store is asked again for room, for all such breakers together.
  case notShared(name: String, StoreError)

  /// A hook has failed too often for an entry of the history, so the entry is skipped.
  case hookGaveUp(hook: String, entry: Int64, name: String)
}

extension StoreEvent: CustomStringConvertible {
  /// The event in one line for a log, such as `payments: closed -> open: 3 failures in a row`.
  public var description: String {
    switch self {
    case .unavailable(let error): "the store is unavailable: \(error)"
    case .available: "the store is available again"
    case .notDurable(let error): "a change may not survive a power cut: \(error)"
    case .transition(let name, let from, let to, let reason):
      Self.line(name, "\(BreakerChange.transition(from: from, to: to)): \(reason)")
    case .transitionAlone(let name, let from, let to, let reason):
      Self.line(
        name, "\(BreakerChange.transition(from: from, to: to)) in this process alone: \(reason)")
    case .rejected(let name, let rejection): Self.line(name, "a call was rejected: \(rejection)")
    case .policyDiffers(let name, let declaredHere, let inForce):
      Self.line(
        name,
        "another policy is in force: \(PolicyDifference(from: declaredHere, to: inForce).text())")
    case .notShared(let name, let error):
      Self.line(name, "this process shares it with no other: \(error)")
    case .hookGaveUp(let hook, let entry, let name):
      Self.line(name, "hook '\(hook)' has failed too often and skips entry \(entry)")
    }
  }

  private static func line(_ name: String, _ words: String) -> String {
    "\(OutsideText.name(name)): \(OutsideText.visible(words))"
  }
}

/// Whether a process can use its store.
///
/// A later version may add cases, so end a `switch` over the health of a store with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum StoreHealth: Sendable, Hashable {
  /// The process has not tried to use the store yet.
  case untried

  /// The process can use the store.
  case connected

  /// The process could not use the store when it last tried.
  case unavailable(StoreError)
}

/// Lines that a process prints about its store if it has no observer.
extension StoreEvent {
  /// Whether the environment asks for silence.
  static var areQuietByEnvironment: Bool {
    guard let text = unsafe getenv("SHARED_BREAKER_QUIET") else { return false }
    return unsafe text.pointee != 0
  }

  /// Prints the loss of the store, or its return, in one line on standard error.
  ///
  /// The caller holds no lock (rule of order 3), because this may take a while.
  func printIfStoreWasLost(by program: String) {
    switch self {
    case .unavailable, .available: break
    case .notDurable, .transition, .transitionAlone, .rejected, .policyDiffers, .notShared,
      .hookGaveUp:
      return
    }
    Self.print(Array("shared-breaker: \(program) (\(getpid())): \(self)\n".utf8))
  }

  /// Prints a line if standard error can take it now.
  ///
  /// A full pipe would block the call, and a pipe without a reader would end the process by SIGPIPE,
  /// so neither gets the line.
  private static func print(_ line: [UInt8]) {
    var entry = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard unsafe poll(&entry, 1, 0) == 1, entry.revents == Int16(POLLOUT) else { return }
    _ = unsafe write(STDERR_FILENO, line, min(line.count, Int(PIPE_BUF)))
  }
}

internal import BreakerCore

/// Why a breaker did not do what you asked.
///
/// A later version may add cases, so end a `switch` over an error with `default`.
///
/// ```swift
/// do {
///   return try await payments.run { try await client.charge(order) }
/// } catch let error as BreakerError where error.rejection != nil {
///   return .tryAgain(after: error.retryAfter ?? .seconds(10))
/// }
/// ```
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum BreakerError: Error, Sendable, Hashable {
  /// The breaker rejected the call, and the work was not run.
  case rejected(name: String, Rejection)

  /// The text cannot be the name of a breaker; the value says why.
  case invalidName(String)

  /// The policy contradicts itself, or could never open or never close the breaker.
  case invalidPolicy(name: String, PolicyError)

  /// The process that should own the permit is not running.
  case noSuchProcess(Int32)

  /// No relay works on the store, so no other host would learn of a command to the whole fleet.
  case noRelay(name: String)

  /// Nothing was restored, because breakers with these names exist and were not to be replaced.
  case alreadyExist(names: [String])

  /// The store could not be used.
  case store(StoreError)
}

extension BreakerError: CustomStringConvertible {
  /// The event, its cause, and the remedy, in one line.
  public var description: String {
    switch self {
    case .rejected(let name, let rejection):
      "\(OutsideText.visible(name)) is rejecting calls: \(rejection)"
    case .invalidName(let complaint):
      "not a name of a breaker: \(complaint): use 1 to 255 bytes of text"
    case .invalidPolicy(let name, let error):
      "the policy of \(OutsideText.visible(name)) cannot be used: \(error)"
    case .noSuchProcess(let pid): "there is no process \(pid): use one that is running"
    case .noRelay(let name):
      "\(OutsideText.visible(name)) was not changed, because no relay would tell the other hosts:"
        + " start cbrelay on this host, or act on this host alone"
    case .alreadyExist(let names):
      "nothing was restored, because \(Self.listed(names)) already: restore with 'replacing: true' to"
        + " replace what exists, or leave these out"
    case .store(let error): error.description
    }
  }
}

extension BreakerError {
  /// The first of several names, and how many others there are, with the verb.
  private static func listed(_ names: [String]) -> String {
    let first = names.first.map { OutsideText.visible($0) } ?? "a breaker"
    switch names.count {
    case ...1: return "\(first) exists"
    case 2: return "\(first) and 1 other exist"
    default: return "\(first) and \(names.count - 1) others exist"
    }
  }

  /// Why the breaker rejected the call; nil if the error is another one.
  public var rejection: Rejection? {
    if case .rejected(_, let rejection) = self { return rejection }
    return nil
  }

  /// How long to wait before calls may be permitted; nil if that is not known.
  public var retryAfter: Duration? { rejection?.retryAfter }
}

extension Rejection: CustomStringConvertible {
  /// The state of the breaker, and when to try again, in words.
  public var description: String {
    let wait = retryAfter.map { "try again in \(DurationText.spoken($0))" }
    if cause == .busy {
      return "as many calls are under way as its max-concurrent permits: "
        + (wait ?? "try again later")
    }
    if cause == .rate {
      return "as many calls have begun as its rate permits: \(wait ?? "try again later")"
    }
    if cause == .retryBudget {
      return
        "as many calls were sent again as its retry-budget permits: \(wait ?? "try again later")"
    }
    if cause == .ramping {
      return
        "it lets few calls through at a time after a pause: \(wait.map { "\($0) at the latest" } ?? "try again later")"
    }
    if cause == .held {
      let why = reason.map { " (\(OutsideText.visible($0)))" } ?? ""
      return "the resource has asked to be left alone\(why): \(wait ?? "try again later")"
    }
    guard mode == .forcedOpen else {
      let later = wait ?? "try again later"
      if let reason { return "\(OutsideText.visible(reason)): \(later)" }
      guard state == .halfOpen else { return "it is \(state.wireName): \(later)" }
      return "a probe is under way: \(wait.map { "\($0) at the latest" } ?? later)"
    }
    let why = reason.map { " (\(OutsideText.visible($0)))" } ?? ""
    return "its mode is \(mode.wireName)\(why): \(wait ?? "wait until somebody removes the mode")"
  }
}

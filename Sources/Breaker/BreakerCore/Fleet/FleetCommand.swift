/// An operator's command to a breaker of every host of a fleet.
@_spi(Relay) public struct FleetCommand: Sendable, Hashable {
  /// The effect of the command.
  ///
  /// A later version may add cases, so end a `switch` over an action with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  @_spi(Relay) public enum Action: Sendable, Hashable {
    /// Opens the breaker, for a time or for as long as its policy says.
    case trip(for: Duration?)

    /// Closes the breaker and clears its counters.
    case reset

    /// Ends a hold that was told before.
    case endHold

    /// Sets a mode, for a time or until it is set again.
    case force(BreakerMode, for: Duration?)

    /// Sets and removes an operator's values of the policy.
    case policy(set: [PolicyKey: String], unset: Set<PolicyKey>)
  }

  /// The name of the breaker.
  @_spi(Relay) public var name: String

  /// The effect of the command.
  @_spi(Relay) public var action: Action

  /// Why, for the history; nil if no reason was given.
  @_spi(Relay) public var reason: String?

  /// Its author, according to the program that gave it: `worker (pid 4711)` or `deploy, via cbctl`.
  @_spi(Relay) public var author: String

  /// The user whom the relay of its host has seen giving it; nil if it has seen no user.
  @_spi(Relay) public var verifiedUser: String?

  /// Whether a key of the fleet proves what that relay says of the user.
  @_spi(Relay) public var isProven: Bool

  /// The host that it was given on.
  @_spi(Relay) public var host: String

  /// The number that orders the commands of a fleet.
  ///
  /// It is the time in milliseconds since 1970 on the clock of the host, but higher than every stamp
  /// that the host had seen. If two commands have the same stamp, the one from the host with the
  /// greater name is the later one.
  @_spi(Relay) public var stamp: Int64

  /// How long ago it was given.
  @_spi(Relay) public var age: Duration

  /// The proofs that the relay of its host has told it, by aspect; empty in a fleet without a key.
  ///
  /// Relays make these texts and check them. A host keeps them, so that it can pass the command on.
  @_spi(Relay) public var seals: [String: String]

  /// Describes a command.
  @_spi(Relay) public init(
    name: String, action: Action, reason: String? = nil, author: String, host: String,
    stamp: Int64, age: Duration, seals: [String: String] = [:], verifiedUser: String? = nil,
    isProven: Bool = false
  ) {
    self.verifiedUser = verifiedUser
    self.isProven = isProven
    self.seals = seals
    self.name = name
    self.action = action
    self.reason = reason
    self.author = author
    self.host = host
    self.stamp = stamp
    self.age = age
  }

  /// The giver of the command, and how far it is verified.
  @_spi(Relay) public var giver: FleetGiver {
    FleetGiver(said: author, verifiedUser: verifiedUser, isProven: isProven, host: host)
  }

  /// The highest stamp that a command may have.
  ///
  /// Programs in other languages read stamps as numbers, which are exact up to here.
  @_spi(Relay) public static let highestStamp: Int64 = 1 << 53

  /// The command divided by aspects of the breaker, with one command for each.
  ///
  /// The aspects are `state`, `hold`, `mode`, and `policy:` with a key of the policy. A command about one
  /// aspect is overtaken only by a later one about the same aspect.
  @_spi(Relay) public var byAspect: [String: FleetCommand] {
    var commands: [String: FleetCommand] = [:]
    for aspect in action.aspects {
      var command = self
      command.action = action.only(aspect)
      command.seals = seals.filter { $0.key == aspect.text }
      commands[aspect.text] = command
    }
    return commands
  }
}

/// Decisions that every host of a fleet makes alike.
extension FleetCommand {
  /// Whether a command is later than another one; all hosts give the same answer.
  @_spi(Relay) public func isLater(than other: FleetCommand) -> Bool {
    if stamp != other.stamp { return stamp > other.stamp }
    return other.host.utf8.lexicographicallyPrecedes(host.utf8)
  }

  /// How long a command to the state is passed on, in nanoseconds: thirty days.
  private static let memory: Int64 = 30 * 86_400_000_000_000

  /// Whether a command to the state is so old that a host that has not heard it ignores it.
  ///
  /// Hosts remember a trip or a reset for thirty days, and a longer trip for as long as it lasts. They remember the
  /// end of holds for as long as a hold can last. They never forget a mode or a value of a policy.
  @_spi(Relay) public var isForgotten: Bool {
    let age = age.inNanoseconds
    return switch action {
    case .trip(let time): age > max(Self.memory, time?.inNanoseconds ?? 0)
    case .reset: age > Self.memory
    case .endHold: age > BreakerPolicy.longestDuration.inNanoseconds
    case .force, .policy: false
    }
  }
}

/// How far a relay has read the stream of its fleet.
@_spi(Relay) public struct FleetPosition: Sendable, Hashable {
  /// Identifies the stream; a stream that starts from scratch has a different epoch.
  @_spi(Relay) public var epoch: String

  /// The number of the latest entry that was read.
  @_spi(Relay) public var number: Int64

  /// The name that the stream gives to that entry.
  @_spi(Relay) public var entry: String

  /// Describes a position.
  @_spi(Relay) public init(epoch: String, number: Int64, entry: String) {
    self.epoch = epoch
    self.number = number
    self.entry = entry
  }
}

/// A piece of news that a relay has learned from other hosts.
///
/// A later version may add cases, so end a `switch` over news with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
@_spi(Relay) public enum FleetNews: Sendable, Hashable {
  /// A command has just been given.
  case command(FleetCommand)

  /// A command was given while this host did not listen.
  ///
  /// A reset that is older than the state of the breaker here comes too late.
  case remembered(FleetCommand)

  /// This many other hosts have the breaker open.
  case suspicion(name: String, hosts: Int)

  /// A probe has succeeded on another host.
  case recovery(name: String, host: String)

  /// Another host was told to leave the resource alone.
  case hold(name: String, host: String, FleetHold)
}

/// A hold that a host of a fleet was told itself, as it tells the others.
///
/// It has no instant, because the clocks of hosts differ.
@_spi(Relay) public struct FleetHold: Sendable, Hashable {
  /// How much longer it lasts.
  @_spi(Relay) public var left: Duration

  /// How long ago the resource asked for it.
  @_spi(Relay) public var age: Duration

  /// The latest stamp of a command to end holds of the breaker that its host knew; 0 if it knew none.
  @_spi(Relay) public var after: Int64

  /// Why the resource asked for it, for people to read; nil if that was not said.
  @_spi(Relay) public var reason: String?

  /// Describes a hold.
  @_spi(Relay) public init(
    left: Duration, age: Duration = .zero, after: Int64 = 0, reason: String? = nil
  ) {
    self.left = left
    self.age = age
    self.after = after
    self.reason = reason
  }
}

/// The effect of a piece of news on this host.
///
/// A later version may add cases, so end a `switch` over a verdict with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
@_spi(Relay) public enum FleetVerdict: Sendable, Hashable {
  /// The breaker was changed.
  case applied

  /// This host knows the command already, or a later one about the same aspect.
  case overtaken

  /// The time of the trip or of the mode is over.
  case expired

  /// The breaker need not change, or its policy or mode does not allow it.
  case unneeded

  /// This host has no such breaker.
  case noBreaker

  /// The news cannot be used; the value says why.
  case refused(String)
}

/// An aspect of a breaker: of two commands about the same one, the later wins.
package enum FleetAspect: Sendable, Hashable {
  case state
  case hold
  case mode
  case policy(PolicyKey)

  private static let policyPrefix = "policy:"

  /// The name of the aspect in files and messages, which never changes.
  package var text: String {
    switch self {
    case .state: "state"
    case .hold: "hold"
    case .mode: "mode"
    case .policy(let key): Self.policyPrefix + key.rawValue
    }
  }

  /// Reads the name of an aspect; nil if this version knows no such aspect.
  package init?(text: String) {
    switch text {
    case "state": self = .state
    case "hold": self = .hold
    case "mode": self = .mode
    default:
      guard text.hasPrefix(Self.policyPrefix),
        let key = PolicyKey(rawValue: String(text.dropFirst(Self.policyPrefix.count)))
      else { return nil }
      self = .policy(key)
    }
  }
}

extension FleetCommand.Action {
  /// The aspects that the action is about.
  var aspects: [FleetAspect] {
    switch self {
    case .trip, .reset: [.state]
    case .endHold: [.hold]
    case .force: [.mode]
    case .policy(let values, let keys):
      PolicyKey.allCases.filter { values[$0] != nil || keys.contains($0) }.map { .policy($0) }
    }
  }

  /// The part of the action that is about an aspect.
  func only(_ aspect: FleetAspect) -> FleetCommand.Action {
    guard case .policy(let values, let keys) = self, case .policy(let key) = aspect else {
      return self
    }
    if let value = values[key] { return .policy(set: [key: value], unset: []) }
    return .policy(set: [:], unset: keys.intersection([key]))
  }
}

extension FleetCommand.Action {
  /// Whether it ends what was held before.
  @_spi(Relay) public var endsHolds: Bool { self == .reset || self == .endHold }
}

extension FleetAspect {
  package var isPolicy: Bool {
    if case .policy = self { return true }
    return false
  }
}

/// A time for which a resource that works has asked to be left alone.
///
/// It stays in the record after its end, until a call that began after it has succeeded or failed: until
/// then, further answers of the same kind prolong it.
package struct Hold: Sendable, Hashable {
  /// When it ends; calls may be made from this instant on.
  package var until: Instant

  /// How long it lasts, counted from when it was last set.
  package var lengthNanoseconds: Int64

  /// When it was last set, by the wall clock.
  package var setAtMilliseconds: Int64

  /// When it began, by the wall clock.
  package var sinceMilliseconds: Int64

  /// How often it was prolonged.
  package var extensions: Int64 = 0

  /// How long the resource asked for, if `hold-max` has cut it.
  package var askedNanoseconds: Int64?

  /// Whether a program or an operator has set it without a call.
  package var isByHand: Bool
  package var reason: String?

  /// The process that set it last, or the host that told it, in words.
  package var setBy: String?

  /// The host of the fleet that told it; nil if this host was told itself, which it tells the others.
  package var host: String?

  /// The latest stamp of a command to end holds that the other host knew when it told this one; 0 if none.
  package var after: Int64 = 0

  /// The lease of the call that goes first after the end; nil while none is under way.
  package var firstLease: Int64?

  /// Until when one call at a time goes first; nil before the first one.
  package var turnUntil: Instant?

  package init(
    until: Instant, lengthNanoseconds: Int64, setAtMilliseconds: Int64, isByHand: Bool = false
  ) {
    self.until = until
    self.lengthNanoseconds = lengthNanoseconds
    self.setAtMilliseconds = setAtMilliseconds
    sinceMilliseconds = setAtMilliseconds
    self.isByHand = isByHand
  }

  /// When the resource asked for it, on whichever host that was.
  package var setAt: Instant { until.advanced(by: -lengthNanoseconds) }

  /// How much longer it lasts; zero if it is over.
  package func remaining(at now: Instant) -> Int64 { max(0, until.since(now)) }
}

/// A breaker's hold, and the numbers that tell which calls began before it.
///
/// A hold takes the next number of the breaker's generation, so that the number of a permit tells.
package struct HoldRecord: Sendable, Hashable {
  package var hold: Hold?

  /// The number that the latest hold took; calls with a lower one began before it.
  package var number: Int64 = 0

  /// Calls with a lower number bring no hold: they began before a reset, or before a hold was ended by hand.
  package var least: Int64 = 0

  /// When a hold was last ended by hand or by a reset on this host, by the wall clock, which outlives the boot.
  ///
  /// A hold that another host was told before that is one that was ended here.
  package var endedAtMilliseconds: Int64?

  /// How many calls in a row were told to wait, but not for how long.
  package var unnamed: Int64 = 0

  package init() {}
}

/// The giver of a hold.
package enum HoldGiver: Sendable, Hashable {
  /// The outcome of a call; the process is given in words.
  case call(PermitGrant, by: String?)

  /// A program that knows without a call.
  case program(String)

  /// An operator, whose word `hold-max` does not cut.
  case `operator`(String)

  /// Another host of the fleet.
  case host(String, FleetHold)

  var words: String? {
    switch self {
    case .call(_, let words): words
    case .program(let words), .operator(let words): words
    case .host(let name, _): "host \(name)"
    }
  }

  var isByHand: Bool {
    switch self {
    case .call, .host: false
    case .program, .operator: true
    }
  }

  /// The other host and its hold; nil if this host was told itself.
  var elsewhere: (host: String, hold: FleetHold)? {
    if case .host(let host, let hold) = self { (host, hold) } else { nil }
  }

  /// How long ago the resource asked for it, in nanoseconds.
  var age: Int64 { max(0, elsewhere?.hold.age.inNanoseconds ?? 0) }
}

/// The effect of asking for a hold.
package enum HoldEffect: Sendable, Hashable {
  /// Calls are held for as long as this, in nanoseconds.
  case holds(Int64)

  /// Calls are held for longer already.
  case isShorter(than: Int64)

  /// No call is held because of it: no time was named, the time is over, or the call began before the breaker was
  /// reset.
  case none
}

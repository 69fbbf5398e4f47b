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

  /// The process that set it last, in words.
  package var setBy: String?

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

  var words: String? {
    switch self {
    case .call(_, let words): words
    case .program(let words), .operator(let words): words
    }
  }

  var isByHand: Bool {
    if case .call = self { false } else { true }
  }
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

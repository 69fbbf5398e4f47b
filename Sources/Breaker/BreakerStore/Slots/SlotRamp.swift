package import BreakerCore
internal import CHost

/// The ramp of a breaker, in one word: when it ends, and how many units have succeeded since it began.
///
/// The end, on the clock that the record uses, tells one ramp from another. No process compares it with a clock here:
/// a ramp is over when the record says so.
struct RampWord: Hashable {
  var bits: UInt64

  static let none = RampWord(bits: 0)
  private static let countBits: UInt64 = 12
  private static let countMask: UInt64 = 1 << countBits - 1
  private static let mostMicroseconds: UInt64 = 1 << (64 - countBits) - 1

  init(bits: UInt64) { self.bits = bits }

  init(until end: Instant) {
    let microseconds = UInt64(clamping: end.nanoseconds / 1_000)
    bits = min(max(1, microseconds), Self.mostMicroseconds) << Self.countBits
  }

  var isNone: Bool { bits >> Self.countBits == 0 }

  /// Whether it is the same ramp, whatever has succeeded since it began.
  func isSame(as other: RampWord) -> Bool {
    bits >> Self.countBits == other.bits >> Self.countBits
  }

  /// How many units may be under way; nil if there is no ramp.
  var allowance: RampAllowance? {
    isNone ? nil : RampAllowance(succeeded: Int(bits & Self.countMask))
  }

  /// When it ends, to the microsecond; nil if there is none.
  var end: Instant? {
    isNone ? nil : Instant(nanoseconds: Int64(bits >> Self.countBits) * 1_000)
  }

  func counting(_ units: Int) -> RampWord {
    let count = min(Self.countMask, bits & Self.countMask + UInt64(clamping: units))
    return RampWord(bits: bits & ~Self.countMask | count)
  }
}

/// The ramp in force, which bounds all calls that take slots.
extension SlotBlock {
  private var ramp: RampWord { RampWord(bits: unsafe sb_see(header(.ramp))) }

  /// How many units may be under way while the breaker ramps up; nil if it does not.
  package var rampAllowance: RampAllowance? { ramp.allowance }

  /// Notes that a call has succeeded, whose units let as many more begin in the ramp of some terms.
  package func noteSuccess(ofUnits units: Int, in terms: SlotTerms) {
    while true {
      let before = ramp
      let after = before.counting(max(1, units))
      if before.isNone || before == after || !before.isSame(as: Self.word(of: terms)) { break }
      if unsafe sb_decide(header(.ramp), before.bits, after.bits) != 0 { break }
    }
    if isAwaited { settle() }
  }

  /// How many units a call of this process takes; 1 if that is not known.
  package func units(of held: HeldSlot) -> Int {
    guard isUnderWay(held) else { return 1 }
    return SlotBound.units(unsafe sb_load(line(held.index, .units)))
  }

  /// Whether a call may begin beside those under way, and under the rate.
  func hasRoom(for claim: CallClaim) -> Bool {
    guard hasRoomBesideRate(for: claim) else { return false }
    guard isRated, let (turn, now) = turnUnderRate() else { return true }
    return turn <= now
  }

  /// Whether there is room for a call beside those under way.
  func hasRoomBesideRate(for claim: CallClaim) -> Bool {
    if claim.needsNoRoom || isBoundByRateOnly { return true }
    guard let limit = gate.limit else { return false }
    let usage = usage
    return limit.hasRoom(for: claim, beside: usage)
      && permitsInRamp(limit.weight(of: claim), beside: usage.total)
  }

  /// Whether the ramp, if there is one, lets a call begin beside so many units.
  func permitsInRamp(_ weight: Int, beside usage: Int) -> Bool {
    ramp.allowance?.permits(weight, beside: usage) ?? true
  }

  /// Whether a ramp is all that is in the way of a call.
  package func isOnlyRamp(inTheWayOf claim: CallClaim) -> Bool {
    guard !ramp.isNone, let limit = gate.limit else { return false }
    let usage = usage
    return limit.hasRoom(for: claim, beside: usage)
      && !permitsInRamp(limit.weight(of: claim), beside: usage.total)
  }

  /// When the ramp in force ends; nil if there is none.
  var rampUntil: Instant? { ramp.end }

  /// Whether the ramp in force is that of some terms.
  func hasRamp(of terms: SlotTerms) -> Bool { ramp.isSame(as: Self.word(of: terms)) }

  /// Puts the ramp of some terms in force, with nothing that has succeeded yet, or ends it.
  ///
  /// - Returns: False if another process has changed it meanwhile.
  func replaceRamp(_ before: UInt64, by terms: SlotTerms) -> Bool {
    let next = Self.word(of: terms)
    if RampWord(bits: before).isSame(as: next) { return true }
    guard unsafe sb_decide(header(.ramp), before, next.bits) != 0 else { return false }
    // Callers that waited for the end of it may begin.
    if next.isNone, isAwaited { settle() }
    return true
  }

  private static func word(of terms: SlotTerms) -> RampWord {
    guard let end = terms.rampUntil else { return .none }
    return RampWord(until: end).counting(terms.rampHeadStart)
  }
}

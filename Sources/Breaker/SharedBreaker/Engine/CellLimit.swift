internal import BreakerCore
internal import BreakerStore

/// How many calls of a breaker may be under way and may begin, and where they are known.
@safe final class CellLimit: Sendable {
  let slots: SlotBlock

  /// These slots, so that a call need not count a reference to them.
  private let block: Unmanaged<SlotBlock>

  let limit: CallLimit
  let places: Int

  /// How long a call waits for its turn, in nanoseconds; nil if it does not wait.
  let patience: Int64?

  /// Whether the policy limits how many calls may be under way; otherwise only a hold and a ramp do.
  let isLimiting: Bool

  /// Whether the policy limits how many calls begin in an interval.
  let isRated: Bool
  private let terms: SlotTerms

  /// The limit as a call compares it that takes nothing but a slot; no gate has that of a limit with a rate.
  private let shapeAtOnce: UInt64

  /// The limit of a breaker; nil if it has none.
  init?(_ breaker: StoredBreaker, _ slots: @autoclosure () -> SlotBlock?) {
    guard Self.takesRoom(breaker), let slots = slots() else { return nil }
    let policy = breaker.policy
    self.slots = slots
    unsafe block = .passUnretained(slots)
    limit = policy.room
    isLimiting = policy.limit != nil
    places = policy.placesToWait
    patience = policy.queueTimeout.map { $0.inNanoseconds }
    isRated = policy.rate != nil
    terms = SlotTerms(
      limit, places: places, revision: .min, rate: policy.rate, isRateOnly: !isLimiting)
    shapeAtOnce = isRated ? ~terms.shape : terms.shape
  }

  /// Whether calls of a breaker take room: under a limit or a rate, in a ramp, and around the end of a hold if callers may wait for it
  /// or a ramp follows.
  ///
  /// Room for the calls of a breaker stays taken on the disk, so a hold alone takes none.
  static func takesRoom(_ breaker: StoredBreaker) -> Bool {
    let policy = breaker.policy
    if policy.limit != nil || policy.rate != nil || breaker.ramp != nil { return true }
    let mayWait = policy.queueTimeout != nil || policy.rampUp != nil
    return mayWait && breaker.record.holds.hold != nil
  }

  func isSame(as other: CellLimit) -> Bool {
    slots === other.slots && limit == other.limit && isLimiting == other.isLimiting
      && places == other.places && patience == other.patience && terms.rate == other.terms.rate
  }

  /// Takes a free slot for an ordinary call of one unit; nil if that takes more than looking.
  @inline(__always) func takeSlot() -> HeldSlot? {
    let held = unsafe block._withUnsafeGuaranteedRef {
      $0.take(.ordinary, of: limit.units, in: shapeAtOnce)
    }
    return held == nil && isRated ? takeUnderRate() : held
  }

  @inline(never) private func takeUnderRate() -> HeldSlot? {
    unsafe block._withUnsafeGuaranteedRef { $0.take(CallClaim(), terms) }
  }

  /// Whether a call has its room here, and its end frees a slot for which no caller waits.
  @inline(__always) func endsAlone(_ held: HeldSlot) -> Bool {
    unsafe block._withUnsafeGuaranteedRef { $0.number == held.block && !$0.isAwaited }
  }

  /// Takes room for one call at once; nil if that does not do.
  @inline(__always) func take(_ claim: CallClaim, _ terms: SlotTerms) -> HeldSlot? {
    claim.isOneOrdinaryUnit ? takeSlot() : slots.take(claim, terms)
  }

  /// Ends a call that has its room here; false if it has ended before, or has it elsewhere.
  @inline(__always) func end(_ held: HeldSlot) -> Bool {
    unsafe block._withUnsafeGuaranteedRef { $0.end(held) }
  }

  /// The terms of the limit at a revision of the breaker, which is in a ramp until an instant.
  @inline(__always) func terms(
    at revision: Int64, rampUntil: Instant?, headStart: Int64
  ) -> SlotTerms {
    var terms = terms
    terms.revision = revision
    (terms.rampUntil, terms.rampHeadStart) = (rampUntil, Int(headStart))
    return terms
  }
}

internal import BreakerCore
internal import BreakerStore

/// How many calls of a breaker may be under way, and where they are known.
@safe final class CellLimit: Sendable {
  let slots: SlotBlock

  /// These slots, so that a call need not count a reference to them.
  private let block: Unmanaged<SlotBlock>

  let limit: CallLimit
  let places: Int

  /// How long a call waits for its turn, in nanoseconds; nil if it does not wait.
  let patience: Int64?
  private let terms: SlotTerms

  /// The limit of a policy; nil if it has none.
  init?(_ policy: BreakerPolicy, _ slots: SlotBlock?) {
    guard let limit = policy.limit, let slots else { return nil }
    self.slots = slots
    unsafe block = .passUnretained(slots)
    self.limit = limit
    places = policy.placesToWait
    patience = policy.queueTimeout.map { $0.inNanoseconds }
    terms = SlotTerms(limit, places: places, revision: .min)
  }

  func isSame(as other: CellLimit) -> Bool {
    slots === other.slots && limit == other.limit && places == other.places
      && patience == other.patience
  }

  /// Takes a free slot for an ordinary call of one unit; nil if that takes more than looking.
  @inline(__always) func takeSlot() -> HeldSlot? {
    unsafe block._withUnsafeGuaranteedRef {
      $0.take(.ordinary, of: limit.units, in: terms.shape)
    }
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

  @inline(__always) func terms(at revision: Int64) -> SlotTerms {
    var terms = terms
    terms.revision = revision
    return terms
  }
}

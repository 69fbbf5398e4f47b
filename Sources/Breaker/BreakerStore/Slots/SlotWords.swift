internal import BreakerCore

/// The word that every call of a breaker with a limit reads first: the limit in force, and what keeps
/// a call from taking a free slot at once.
struct GateWord: Hashable {
  var bits: UInt64

  static let ordinaryWaits: UInt64 = 1
  static let backgroundWaits: UInt64 = 2

  /// More slots may be taken than the limit allows, because it was lowered.
  static let isNarrowed: UInt64 = 4

  private static let limitShift: UInt64 = 3
  private static let reservedShift: UInt64 = 14
  private static let mask: UInt64 = 0x7FF

  /// The rest of the word changes with every arrival, so that a process that replaces it misses none.
  private static let version: UInt64 = 1 << 25

  /// The limit.
  static let shape = mask << limitShift | mask << reservedShift

  init(bits: UInt64) { self.bits = bits }

  init(_ limit: CallLimit) {
    bits =
      (UInt64(clamping: limit.units) & Self.mask) << Self.limitShift
      | (UInt64(clamping: limit.reserved) & Self.mask) << Self.reservedShift
  }

  /// The limit; nil before the first call, or if the word is damaged.
  var limit: CallLimit? {
    let units = Int(bits >> Self.limitShift & Self.mask)
    let reserved = Int(bits >> Self.reservedShift & Self.mask)
    guard (1...SlotFile.slotsOfBlock).contains(units), reserved < units else { return nil }
    return CallLimit(units, reserved: reserved)
  }

  func has(_ flag: UInt64) -> Bool { bits & flag != 0 }

  /// The next word, with other flags.
  func next(adding flags: UInt64 = 0, removing others: UInt64 = 0) -> GateWord {
    GateWord(bits: (bits & ~others | flags) &+ Self.version)
  }

  /// The next word, with another limit.
  func next(_ limit: CallLimit, isNarrowed: Bool) -> GateWord {
    let flags = isNarrowed ? Self.isNarrowed : 0
    return GateWord(bits: bits & ~Self.shape | GateWord(limit).bits).next(adding: flags)
  }

  /// The flags that keep calls of a priority waiting.
  static func obstacles(for priority: CallPriority) -> UInt64 {
    switch priority {
    case .ordinary: ordinaryWaits | isNarrowed
    case .background: ordinaryWaits | backgroundWaits | isNarrowed
    }
  }

  static func flag(of priority: CallPriority) -> UInt64 {
    switch priority {
    case .ordinary: ordinaryWaits
    case .background: backgroundWaits
    }
  }
}

/// A slot: free, or taken by an owner.
struct SlotWord: Hashable {
  var bits: UInt64

  static let free = SlotWord(bits: 0)
  private static let ordinary: UInt64 = 1
  private static let background: UInt64 = 2

  init(bits: UInt64) { self.bits = bits }

  init(takenBy owner: UInt64, _ priority: CallPriority) {
    bits =
      switch priority {
      case .ordinary: owner << 2 | Self.ordinary
      case .background: owner << 2 | Self.background
      }
  }

  var isFree: Bool { bits == 0 }

  /// Whether its kind is one that is ever written; only damage has others.
  var isOfKnownKind: Bool { bits & 3 == Self.ordinary || bits & 3 == Self.background }
  var owner: UInt64 { bits >> 2 }
  var priority: CallPriority { bits & 3 == Self.background ? .background : .ordinary }
}

/// A place in the queue: free, being taken by an owner, or that of a caller that waits.
struct PlaceWord: Hashable {
  var bits: UInt64

  static let free = PlaceWord(bits: 0)
  private static let taking: UInt64 = 1
  private static let waiting: UInt64 = 2

  /// A caller that did not come when it was its turn.
  private static let absent: UInt64 = 3
  private static let background: UInt64 = 4

  /// A caller that does not wait: it has the place only while it tries.
  private static let brief: UInt64 = 8

  private static let ticketShift: UInt64 = 4

  init(bits: UInt64) { self.bits = bits }

  init(beingTakenBy owner: UInt64) { bits = owner << 2 | Self.taking }

  init(_ place: WaitingPlace, isBrief: Bool) {
    bits =
      Self.waiting | (place.priority == .background ? Self.background : 0)
      | (isBrief ? Self.brief : 0) | UInt64(bitPattern: place.ticket) << Self.ticketShift
  }

  var isFree: Bool { bits == 0 }

  /// Whether its kind is one that is ever written; only damage has others.
  var isOfKnownKind: Bool { bits & 3 != 0 }

  /// The owner that is just taking the place; nil if none is.
  var taker: UInt64? { bits & 3 == Self.taking ? bits >> 2 : nil }

  var isWaiting: Bool { bits & 3 == Self.waiting }
  var isAbsent: Bool { bits & 3 == Self.absent }
  var isBrief: Bool { bits & Self.brief != 0 }

  /// The caller's place in the order.
  var place: WaitingPlace {
    WaitingPlace(
      bits & Self.background != 0 ? .background : .ordinary,
      ticket: Int64(bitPattern: bits >> Self.ticketShift))
  }

  func noting(isAbsent: Bool) -> PlaceWord {
    PlaceWord(bits: bits & ~3 | (isAbsent ? Self.absent : Self.waiting))
  }
}

/// A rate as the block of a breaker has it, in one word.
struct RateWord: Hashable {
  var bits: UInt64

  private static let callsMask: UInt64 = 0xFFFF

  /// Instants of calls that began under a rate of more calls may still count.
  private static let narrowed: UInt64 = 1 << 16

  /// The rate is the only bound: a call for which there is no slot begins without one.
  private static let alone: UInt64 = 1 << 17

  /// The number of calls was changed, so the entries may not be in the order of their instants from the cursor on.
  private static let unordered: UInt64 = 1 << 18
  private static let intervalShift: UInt64 = 19

  init(bits: UInt64) { self.bits = bits }

  init(_ rate: CallRate, isOnlyBound: Bool) {
    let (microseconds, rest) = rate.interval.inNanoseconds.quotientAndRemainder(dividingBy: 1_000)
    let interval = UInt64(clamping: max(1, microseconds.addingSaturating(rest > 0 ? 1 : 0)))
    let calls = UInt64(max(1, min(rate.calls, CallRate.most)) - 1)
    bits = interval << Self.intervalShift | (isOnlyBound ? Self.alone : 0) | calls
  }

  var isNone: Bool { bits >> Self.intervalShift == 0 }
  var calls: Int { Int(bits & Self.callsMask) + 1 }

  /// The length of the interval, in nanoseconds.
  var interval: Int64 { Int64(bits >> Self.intervalShift).multipliedSaturating(by: 1_000) }
  var isNarrowed: Bool { bits & Self.narrowed != 0 }
  var isOnlyBound: Bool { !isNone && bits & Self.alone != 0 }

  var isUnordered: Bool { bits & Self.unordered != 0 }

  func isSame(as other: RateWord) -> Bool { plain == other.plain }

  /// Whether a call that began under this word has kept to another one too: what no longer counts is no change.
  func isStillMet(by other: RateWord) -> Bool {
    isSame(as: other) && (isNarrowed || !other.isNarrowed)
  }

  /// The rate alone, without what it says of the ring.
  var plain: RateWord { narrowed(false).unordered(false) }

  func narrowed(_ isNarrowed: Bool) -> RateWord {
    RateWord(bits: isNarrowed ? bits | Self.narrowed : bits & ~Self.narrowed)
  }

  func unordered(_ isUnordered: Bool) -> RateWord {
    RateWord(bits: isUnordered ? bits | Self.unordered : bits & ~Self.unordered)
  }
}

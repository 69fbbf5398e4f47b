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

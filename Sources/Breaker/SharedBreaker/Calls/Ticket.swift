internal import BreakerCore
internal import BreakerStore

/// A call that was permitted: everything that is needed to take its outcome, in ten numbers.
///
/// It is the one shape of such a call. A permit and the attempt of a job keep it, a token writes some of it as text, and
/// an `sb_permit` of the C library holds its numbers. Only a call that was permitted from memory, and may end there, is
/// less: a `HealthyCall` or a `LimitedCall`, in two registers.
package struct Ticket: Sendable, Hashable, BitwiseCopyable {
  private var flags: UInt64 = 0

  /// The word of a call that was permitted from memory, in which a few bits identify the row.
  var word = CellWord.unknown
  private var startNanoseconds: Int64 = 0
  private var generation: Int64 = 0
  private var lease: Int64 = 0
  private var deadlineNanoseconds: Int64 = 0

  /// The row of the breaker, and the lineage of its store; 0 if they are not known.
  private(set) var breaker: Int64 = 0
  private(set) var lineage: Int64 = 0

  /// The fork depth of the process that got the ticket: a child does not own it.
  var forkDepth = ForkGuard.depth

  /// The room that the call has taken, or that of the call which it is inside of; 0 if it has none.
  package private(set) var room: UInt64 = 0

  enum Source: Sendable {
    case store

    /// The breaker that this process has for itself alone.
    case local

    /// No breaker at all: the outcome is discarded.
    case none
  }

  private static let isProbe: UInt64 = 1
  private static let hasStart: UInt64 = 2
  private static let hasDeadline: UInt64 = 4
  private static let wouldReject: UInt64 = 8
  private static let isLocal: UInt64 = 16
  private static let isUnrecorded: UInt64 = 32
  private static let isInside: UInt64 = 64
  private static let isRetry: UInt64 = 128

  private func has(_ flag: UInt64) -> Bool { flags & flag != 0 }

  private mutating func set(_ flag: UInt64, _ isSet: Bool) {
    flags = isSet ? flags | flag : flags & ~flag
  }
}

extension Ticket {
  /// The ticket for a permit that a breaker has granted.
  init(_ grant: PermitGrant, of breaker: StoredBreaker, from source: Source) {
    self.init(grant, breaker: breaker.id, lineage: breaker.lineage, from: source)
  }

  /// The ticket for a permit of a breaker that is known by its numbers, or not at all.
  init(_ grant: PermitGrant, breaker: Int64 = 0, lineage: Int64 = 0, from source: Source) {
    self.grant = grant
    self.breaker = breaker
    self.lineage = lineage
    set(Self.isLocal, source == .local)
    set(Self.isUnrecorded, source == .none)
  }

  /// The ticket that a word of the healthy path stands for.
  init(_ word: CellWord) {
    self.word = word
    generation = word.generation
  }

  package init(_ call: HealthyCall) {
    self.init(CellWord(bits: call.word))
    if word.has(CellWord.measures) { start = Instant(nanoseconds: call.start) }
  }

  package init(_ call: LimitedCall) {
    self.init(CellWord(bits: call.word))
    room = call.room
  }
}

extension Ticket {
  var source: Source { has(Self.isUnrecorded) ? .none : has(Self.isLocal) ? .local : .store }

  package var kind: PermitKind { has(Self.isProbe) ? .probe : .normal }

  var grant: PermitGrant {
    get {
      PermitGrant(
        kind: kind, generation: generation, lease: lease,
        deadline: has(Self.hasDeadline) ? Instant(nanoseconds: deadlineNanoseconds) : nil,
        wouldReject: has(Self.wouldReject))
    }
    set {
      generation = newValue.generation
      lease = newValue.lease
      deadlineNanoseconds = newValue.deadline?.nanoseconds ?? 0
      set(Self.isProbe, newValue.kind == .probe)
      set(Self.hasDeadline, newValue.deadline != nil)
      set(Self.wouldReject, newValue.wouldReject)
    }
  }

  /// When the call began, if the policy looks at how long calls take.
  var start: Instant? {
    get { has(Self.hasStart) ? Instant(nanoseconds: startNanoseconds) : nil }
    set {
      startNanoseconds = newValue?.nanoseconds ?? 0
      set(Self.hasStart, newValue != nil)
    }
  }

  /// The room that the call has taken of the limit of its breaker, if it is under one.
  var held: HeldSlot? {
    get { has(Self.isInside) ? nil : HeldSlot(bits: room) }
    set { (room, flags) = (newValue?.bits ?? 0, flags & ~Self.isInside) }
  }

  /// The room of the call that this one is inside of, if that is one of this process.
  var outer: HeldSlot? {
    get { has(Self.isInside) ? HeldSlot(bits: room) : nil }
    set { (room, flags) = (newValue?.bits ?? 0, flags | Self.isInside) }
  }

  /// Whether the call was sent again under a budget for retries.
  var isRetry: Bool {
    get { has(Self.isRetry) }
    set { set(Self.isRetry, newValue) }
  }

  /// Whether the call has taken room itself.
  package var hasRoom: Bool { room != 0 && !has(Self.isInside) }
}

extension Ticket {
  /// Whether it belongs to this process, and not to one that this process was forked from.
  var isOwn: Bool {
    forkDepth == ForkGuard.depth && (word == .unknown || word.isOwn)
  }

  /// The grant as far as it is valid for a breaker.
  ///
  /// A breaker of another store, or one that was deleted and created again under the same name, did
  /// not give it, so the outcome changes no state.
  func grant(on breaker: StoredBreaker) -> PermitGrant {
    let isOther =
      self.breaker != 0 && (self.breaker != breaker.id || lineage != breaker.lineage)
    guard isOther || !word.mayBe(of: breaker) else { return grant }
    var grant = grant
    grant.generation = PermitGrant.unjudged
    grant.lease = 0
    return grant
  }
}

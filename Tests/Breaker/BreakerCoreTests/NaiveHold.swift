@testable import BreakerCore

/// The rules of holds, worked out from all that ever happened.
extension NaiveBreaker {
  /// A hold as it was set.
  struct Hold {
    var at: Int
    var until: Int
    var length: Int

    /// Whether calls could begin when it was set.
    var isFresh: Bool
  }

  /// The facts about holds since the last one ended.
  private var holdFacts: ArraySlice<Fact> {
    let start = facts.lastIndex { fact in
      switch fact {
      case .holdOver, .holdEnded, .reset: true
      default: false
      }
    }
    return facts[(start ?? 0)...]
  }

  private var holdsInRow: [Hold] {
    holdFacts.compactMap { if case .heldBack(let hold) = $0 { hold } else { nil } }
  }

  /// The hold that counts; it may be over.
  var hold: Hold? { holdsInRow.last }

  var holdExtensions: Int { max(0, holdsInRow.count - 1) }

  var unnamedInRow: Int {
    var row = 0
    for fact in facts {
      switch fact {
      case .askedUnnamed: row += 1
      case .answered, .holdOver, .holdEnded, .reset: row = 0
      default: continue
      }
    }
    return row
  }

  /// The generation after the last fact of a kind; 0 if there is none.
  private func generation(after isSuch: (Fact) -> Bool) -> Int64 {
    guard let index = facts.lastIndex(where: isSuch) else { return 0 }
    return generation(ofFirst: index + 1)
  }

  private var holdNumber: Int64 {
    generation { if case .heldBack(let hold) = $0 { hold.isFresh } else { false } }
  }

  private var leastNumber: Int64 {
    generation {
      switch $0 {
      case .holdEnded, .reset: true
      default: false
      }
    }
  }

  /// The calls that went first since calls were last held or the state changed.
  private var turns: [Lease] {
    var turns: [Lease] = []
    for fact in facts {
      switch fact {
      case .heldBack, .holdOver, .holdEnded: turns = []
      case .firstGranted(let lease): turns.append(lease)
      case .opened, .halfOpened, .suspected, .acquitted, .closed, .reset: turns = []
      default: continue
      }
    }
    return turns
  }

  var turnUntil: Int? { turns.first?.deadline }

  private var leaseOfFirst: Lease? {
    leases.first { lease in turns.contains { $0.id == lease.id } }
  }

  func isOfFirst(_ lease: Lease) -> Bool { lease.id == leaseOfFirst?.id }

  /// The leases of calls that go first end when that is over.
  mutating func endTurns() {
    if let first = leaseOfFirst { facts.append(.leaseEnded(first.id)) }
  }

  mutating func settleTurn(_ given: Circumstances) {
    guard let turnUntil, turnUntil <= given.now else { return }
    endHold(at: turnUntil, isHung: true)
  }

  private mutating func endHold(at now: Int, isHung: Bool) {
    if hold != nil { arrows.append("hold:hold>ended") }
    endTurns()
    facts.append(.holdOver(at: now, isHung: isHung))
  }

  /// The answer of a hold to a request: how long to wait, or that the call goes first; nil if it lets calls through.
  func held(_ now: Int) -> (wait: Int?, goesFirst: Bool)? {
    guard let hold else { return nil }
    if hold.until > now { return (hold.until - now, false) }
    guard state == .closed else { return nil }
    if let first = leaseOfFirst { return (nextLook(first, now) - now, false) }
    return (nil, true)
  }

  mutating func goFirst(_ owner: ProcessIdentity, _ now: Int) -> PermitGrant {
    let time = min(hold?.length ?? 0, nanoseconds(policy.probeTimeout))
    let lease = Lease(
      id: lastLease + 1, generation: generation, owner: owner, began: now,
      deadline: turnUntil ?? now + max(1, time))
    facts.append(.firstGranted(lease))
    return PermitGrant(
      kind: .probe, generation: generation, lease: lease.id,
      deadline: Instant(nanoseconds: Int64(lease.deadline)))
  }

  /// Takes a wish to be left alone; `permit` is nil if no call has brought it.
  mutating func holdBack(
    _ named: Int?, permit: PermitGrant?, isOperators: Bool = false, _ given: Circumstances
  ) {
    if let permit, permit.generation != 0, permit.generation < leastNumber { return }
    var length = named ?? 0
    if length <= 0 {
      guard let permit, permit.generation != 0, permit.generation >= holdNumber else { return }
      facts.append(.askedUnnamed)
      guard unnamedInRow > 2 else { return }
      length = nanoseconds(policy.holdFor)
      for _ in 0..<min(6, unnamedInRow - 3) { length *= 2 }
    }
    length = min(length, nanoseconds(isOperators ? .seconds(365 * 86_400) : policy.holdMax))
    let earlier = hold
    let left = max(0, (earlier?.until ?? 0) - given.now)
    guard length > left else { return }
    if let earlier {
      let compared = left > 0 ? left : earlier.length
      if length >= 2 * compared { arrows.append("hold:hold>prolonged") }
    } else {
      arrows.append("hold:hold>began")
    }
    endTurns()
    facts.append(
      .heldBack(
        Hold(at: given.now, until: given.now + length, length: length, isFresh: left == 0)))
  }

  /// An operator or a program ends a hold.
  mutating func endHoldByHand(_ given: Circumstances) -> Bool {
    guard hold != nil else { return false }
    arrows.append("hold:hold>ended")
    endTurns()
    facts.append(.holdEnded(at: given.now))
    return true
  }

  /// A call succeeded or failed: if it began after the last hold, the hold is over.
  mutating func noteAnswer(to permit: PermitGrant, _ given: Circumstances) {
    guard permit.generation != 0, permit.generation >= holdNumber else { return }
    if let hold {
      if hold.until <= given.now { endHold(at: given.now, isHung: false) }
    } else {
      facts.append(.answered)
    }
  }
}

/// The rules of ramps.
extension NaiveBreaker {
  /// Until when few calls go at once, if that is after an instant, and how many more because the first one hangs.
  func ramp(after now: Int) -> [Int] {
    guard let time = policy.rampUp.map(nanoseconds) else { return [] }
    var (until, isClosed, isHeld): (Int?, Bool, Bool) = (nil, true, false)
    var headStart = 0
    for fact in facts {
      switch fact {
      case .closed(let at), .acquitted(let at):
        isClosed = true
        until = isHeld ? nil : at + time
        headStart = 0
      case .holdOver(let at, let isHung):
        isHeld = false
        if isClosed { (until, headStart) = (at + time, isHung ? 1 : 0) }
      case .holdEnded(let at):
        isHeld = false
        if isClosed { (until, headStart) = (at + time, 0) }
      case .reset(let at):
        if !isClosed || isHeld { (until, headStart) = (at + time, 0) }
        (isClosed, isHeld) = (true, false)
      case .heldBack: (until, isHeld) = (nil, true)
      case .opened, .halfOpened, .suspected: (until, isClosed) = (nil, false)
      default: continue
      }
    }
    return until.flatMap { $0 > now ? [$0, headStart] : nil } ?? []
  }
}

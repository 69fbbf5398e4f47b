package import BreakerCore
internal import CHost
internal import Synchronization

/// The slots and the queue of one breaker, which all processes of the host share.
///
/// Nothing here is locked: a process that is stopped or killed at any instruction keeps the slots that it
/// has, and holds up no other process. One atomic operation takes a slot and names its owner, so the owner
/// of each slot is always known. `SlotCare` frees the slots of owners that have ended, and `SlotQueue` has
/// the callers that wait.
///
/// Unchecked because the compiler does not know that all access to the memory is atomic.
@safe package final class SlotBlock: @unchecked Sendable {
  /// Distinguishes these slots from all others that this process has used.
  ///
  /// All stores of this process that use one file know a breaker's slots by the same number.
  package let number: UInt64
  let mapping: SlotMapping

  /// Where the mapping begins, so that a call need not look into it.
  let address: UnsafeMutableRawPointer
  let owners: SlotOwners

  /// The row of the breaker; 0 if it stands in for one that cannot be read.
  let breaker: Int64

  /// The slot from which a call looks for a free one.
  private let hint = Atomic<Int>(0)

  /// Whether this process has looked for owners that ended before it came.
  let hasLookedOnArrival = Atomic<Bool>(false)

  /// The looks of this process for owners that have died and callers that miss their turn.
  let care = SlotCare()

  /// The clock of the instants of a rate.
  let clock: StoreClock

  /// Reserves room on the disk for a part of the block, by its offset and its length; nil if no file is behind the
  /// block.
  private let reserve: (@Sendable (_ offset: Int, _ length: Int) -> Bool)?

  /// How many entries of the ring of instants have room that this process can reach.
  private let ringRoom: Atomic<Int>

  /// - Parameters:
  ///   - mapping: The memory of the block.
  ///   - owners: The processes that take part.
  ///   - breaker: The row of the breaker.
  ///   - number: The number of the block in this process.
  ///   - ringCapacity: How many entries of the ring of instants have room.
  ///   - clock: The clock of the store.
  ///   - reserve: Reserves room on the disk for a part of the block; nil if no file is behind it.
  init(
    _ mapping: SlotMapping, _ owners: SlotOwners, of breaker: Int64, number: UInt64,
    ringCapacity: Int = 0, clock: StoreClock = .system,
    reserve: (@Sendable (_ offset: Int, _ length: Int) -> Bool)? = nil
  ) {
    self.number = number
    self.clock = clock
    ringRoom = Atomic(ringCapacity)
    self.reserve = reserve
    self.mapping = mapping
    unsafe address = mapping.address
    self.owners = owners
    self.breaker = breaker
  }

  /// Asks for room for one call.
  ///
  /// - Parameters:
  ///   - claim: How much the call takes, and its priority.
  ///   - terms: The limit that the caller knows.
  ///   - wait: How long the caller waits for its turn; nil if not at all.
  /// - Returns: The slots, which the caller has to give back by `end`, or why there are none.
  package func enter(
    _ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait? = nil
  ) -> SlotEntry {
    let isHeld = wait?.isHeld ?? false
    if !isHeld, let held = take(claim, terms) { return .begun(held) }
    return enterWithCare(claim, terms, wait, isHeld: isHeld)
  }

  var ringCapacity: Int { ringRoom.load(ordering: .acquiring) }

  /// Uses so many entries of the ring of instants from now on, which have room.
  func useRing(of entries: Int) {
    if entries > ringCapacity { ringRoom.store(entries, ordering: .releasing) }
  }

  /// Ends a call; false if it has ended before, or belongs to another process.
  @discardableResult package func end(_ held: HeldSlot) -> Bool {
    guard held.block == number, let own = owners.ownAgain,
      UInt32(truncatingIfNeeded: unsafe sb_load(line(held.index, .serial))) == held.serial,
      giveBack(held.index, SlotWord(takenBy: own, held.priority)) || giveBackOfAnother(held)
    else { return false }
    // Rule of order 27: the slot is free before this looks for waiters.
    if isAwaited { settle() }
    return true
  }

  /// How many units are under way.
  package var usage: SlotUsage {
    var usage = SlotUsage()
    for index in 0..<slotExtent {
      let word = word(ofSlot: index)
      if !word.isFree { usage[word.priority] += 1 }
    }
    return usage
  }

  /// Whether other processes see the calls of this one; not if too many take part.
  package var areCallsSeen: Bool { owners.areCallsSeen }

  /// Whether a caller may wait for room, so that the end of a call has to wake it.
  @inline(__always) package var isAwaited: Bool {
    gate.has(GateWord.ordinaryWaits | GateWord.backgroundWaits | GateWord.isNarrowed)
  }
}

/// The room on the disk, which slots and places get as calls need them.
///
/// A full disk would kill a process that writes where there is none. So a process raises an extent only after it has
/// reserved the room, and every process may use all that lies within the extent (rule of order 34).
extension SlotBlock {
  /// Lets calls use so many slots; false if the disk has no room for them.
  func makeRoom(forSlots count: Int) -> Bool {
    let lines = Self.linesToReserve(for: count, beyond: slotExtent)
    guard lines == 0 || reserve?(SlotFile.offsetOfSlots, lines * SlotFile.bytesOfLine) ?? true
    else { return false }
    raise(.slots, to: count)
    return true
  }

  /// Lets callers use so many places; false if the disk has no room for them.
  func makeRoom(forPlaces count: Int) -> Bool {
    let lines = Self.linesToReserve(for: count, beyond: placeExtent)
    if lines > 0, let reserve {
      guard reserve(SlotFile.offsetOfWaiters, lines * SlotFile.bytesOfLine),
        reserve(SlotFile.offsetOfHeader - lines * 8, lines * 8)
      else { return false }
    }
    raise(.places, to: count)
    return true
  }

  /// How many lines to reserve, whole pages of them, before so many may be used; 0 if they have room.
  private static func linesToReserve(for count: Int, beyond extent: Int) -> Int {
    let page = SlotFile.linesAtFirst
    let reserved = max(page, (extent + page - 1) / page * page)
    return count <= reserved ? 0 : (count + page - 1) / page * page
  }
}

/// Calls inside of calls.
extension SlotBlock {
  /// Whether a call of this process has not ended yet.
  package func isUnderWay(_ held: HeldSlot) -> Bool {
    held.block == number && ownerOfThisProcess(of: held) != nil
  }

  /// Whether a call of another process has not ended yet, and neither has the process.
  package func isUnderWay(_ inherited: InheritedSlot) -> Bool {
    inherited.breaker == breaker
      && owner(of: inherited.index, serial: inherited.serial) == inherited.owner
      && !owners.isGone(inherited.owner)
  }

  /// Whether a call of another process has ended for certain; false if it has its room in another file.
  package func hasEnded(_ inherited: InheritedSlot) -> Bool {
    guard inherited.file == mapping.file else { return false }
    return inherited.breaker == breaker
      ? !isUnderWay(inherited) : owners.isGone(inherited.owner)
  }

  /// The owner of a slot while the call with a serial has it; nil if that call has ended.
  private func owner(of index: Int, serial: UInt32) -> UInt64? {
    guard index < slotExtent else { return nil }
    let word = word(ofSlot: index)
    // The opposite order of `begin`: a slot that its owner is taking again still has the old serial.
    guard !word.isFree, unsafe sb_load(line(index, .units)) != 0,
      UInt32(truncatingIfNeeded: unsafe sb_load(line(index, .serial))) == serial
    else { return nil }
    return word.owner
  }

  /// The owner in whose name this process has taken the slot of a call; nil if the call has ended, or is
  /// that of another process.
  ///
  /// The call may have begun through another store of this process: each store is an owner by itself.
  private func ownerOfThisProcess(of held: HeldSlot) -> UInt64? {
    guard let owner = owner(of: held.index, serial: held.serial),
      owner == owners.own || ProcessSlots.has(owner)
    else { return nil }
    return owner
  }

  /// Frees the slots of a call that this process began as another owner, such as before its store used
  /// another file for a while.
  @inline(never) private func giveBackOfAnother(_ held: HeldSlot) -> Bool {
    guard let owner = ownerOfThisProcess(of: held) else { return false }
    return giveBack(held.index, SlotWord(takenBy: owner, held.priority))
  }

  /// A call as other processes can name it; nil if they cannot.
  package func inheritance(of held: HeldSlot) -> InheritedSlot? {
    guard held.block == number, let file = mapping.file,
      let owner = ownerOfThisProcess(of: held)
    else { return nil }
    return InheritedSlot(
      in: file, breaker: breaker, owner: owner, index: held.index, serial: held.serial)
  }
}

/// Taking a free slot at once.
extension SlotBlock {
  /// Takes a slot for a call that needs only one, if nothing is in its way.
  package func take(_ claim: CallClaim, _ terms: SlotTerms) -> HeldSlot? {
    let isPlain =
      claim.units <= 1 && terms.rampUntil == nil && !claim.needsNoRoom
      && (claim.priority == .ordinary || terms.limit.reserved == 0 || terms.limit.units == 1)
    guard isPlain,
      let held = take(claim.priority, of: terms.limit.units, in: terms.shape)
    else { return nil }
    // Rule of order 33: an instant of a rate is taken last, because it is never given back.
    guard terms.rate == 0 || hasRate(of: terms) && beginUnderRate() == nil else {
      end(held)
      return nil
    }
    return held
  }

  /// Lets a call inside of another one begin, which needs no room of its own; false if its turn under the rate has not
  /// come, or other terms are in force.
  package func beginsInside(_ terms: SlotTerms) -> Bool {
    terms.rate == 0 || hasRate(of: terms) && beginUnderRate() == nil
  }

  /// Takes a free slot for a call that needs only one, if nothing is in its way.
  ///
  /// - Parameters:
  ///   - priority: The priority of the call.
  ///   - units: The limit that the caller knows.
  ///   - shape: The limit as it is in the gate.
  /// - Returns: The slot; nil if it takes more than looking.
  package func take(
    _ priority: CallPriority, of units: Int, in shape: UInt64
  ) -> HeldSlot? {
    let obstacles = GateWord.shape | GateWord.obstacles(for: priority)
    let before = gate
    guard (before.bits ^ shape) & obstacles == 0, let own = owners.own else { return nil }
    let word = SlotWord(takenBy: own, priority)
    // Read before the slot is taken, so that it takes no time of its own.
    let now = sb_coarse_nanoseconds()
    guard let index = takeAny(below: units, word) else { return nil }
    let held = begin(index, word, units: 1, at: now)
    // The limit may have been lowered meanwhile. A caller that waits now came later than this one.
    guard (gate.bits ^ shape) & (GateWord.shape | GateWord.isNarrowed) == 0 else {
      end(held)
      return nil
    }
    return held
  }

  /// Takes any free slot that has been in use, beginning with the one that this process took last.
  @inline(__always) private func takeAny(below end: Int, _ word: SlotWord) -> Int? {
    let last = hint.load(ordering: .relaxed)
    if last < end, takes(last, word) { return last }
    return takeAnother(below: min(end, slotExtent), after: last, word)
  }

  private func takeAnother(below end: Int, after last: Int, _ word: SlotWord) -> Int? {
    var index = last
    for _ in 0..<end {
      index = index + 1 < end ? index + 1 : 0
      if takes(index, word) {
        hint.store(index, ordering: .relaxed)
        return index
      }
    }
    return nil
  }

  @inline(__always) private func takes(_ index: Int, _ word: SlotWord) -> Bool {
    unsafe sb_load(slot(index)) == 0 && sb_decide(slot(index), 0, word.bits) != 0
  }

  /// Describes a call that begins at a time of the coarse clock; its first slot has been taken.
  @inline(__always) private func begin(
    _ index: Int, _ word: SlotWord, units: Int, at now: Int64, next: Int? = nil
  ) -> HeldSlot {
    // Rule of order 31: units that a killed process left in the slot are not mistaken for this call's.
    unsafe sb_set(line(index, .units), 0)
    let serial = unsafe sb_load(line(index, .serial)) &+ 1
    unsafe sb_set(line(index, .serial), serial)
    unsafe sb_set(line(index, .since), UInt64(bitPattern: now))
    unsafe sb_set(line(index, .units), UInt64(units))
    unsafe sb_set(line(index, .next), UInt64(next.map { $0 + 1 } ?? 0))
    return HeldSlot(
      index, word.priority, serial: UInt32(truncatingIfNeeded: serial), of: number)
  }

  /// Frees the slots of a call, which begin with an index and are taken by a word.
  @inline(__always) private func giveBack(_ first: Int, _ word: SlotWord) -> Bool {
    guard self.word(ofSlot: first) == word else { return false }
    // Rule of order 31: a slot has units only while its call is under way. A process that is killed from here
    // on, or between taking the slot and beginning the call, has lost no call.
    unsafe sb_set(line(first, .units), 0)
    var next = first
    var isFirst = true
    // Each line is read before its slot is free, because another process may write it then.
    while next < SlotFile.slotsOfBlock {
      let following = unsafe sb_load(line(next, .next))
      guard unsafe sb_decide(slot(next), word.bits, 0) != 0 else { return !isFirst }
      isFirst = false
      guard following != 0 else { return true }
      next = Int(clamping: following) - 1
    }
    return true
  }
}

/// Taking slots where a single operation cannot tell whether there is room.
extension SlotBlock {
  /// Takes slots for a call whose turn it is, if there is room.
  ///
  /// It takes them first, and then looks whether too many are taken; if so, it gives them back. Of any
  /// calls that have slots at the same time, the last one to take them sees all the others, so there
  /// are never more than the limit allows.
  ///
  /// The instant of a rate comes last.
  func takeWithCare(_ claim: CallClaim, _ own: UInt64) -> SlotEntry? {
    guard hasRoom(for: claim) else { return nil }
    if claim.needsNoRoom { return beginUnderRate() == nil ? .unseen : nil }
    guard let held = takeSlots(claim, own) else {
      return isBoundByRateOnly && beginUnderRate() == nil ? .unseen : nil
    }
    guard !isRated || beginUnderRate() == nil else {
      _ = giveBack(held.index, SlotWord(takenBy: own, claim.priority))
      return nil
    }
    return .begun(held)
  }

  /// Takes a free slot of those that have not been in use; nil if there is none, or no room for it on the disk.
  private func takeNew(below end: Int, _ word: SlotWord) -> Int? {
    // Other calls may take the new ones first.
    for _ in 0..<SlotFile.slotsOfBlock where slotExtent < end {
      guard makeRoom(forSlots: min(end, slotExtent + SlotFile.linesAtFirst)) else { return nil }
      if let index = takeAny(below: end, word) { return index }
    }
    return nil
  }

  private func takeSlots(_ claim: CallClaim, _ own: UInt64) -> HeldSlot? {
    let before = gate
    guard let limit = before.limit else { return nil }
    let word = SlotWord(takenBy: own, claim.priority)
    let weight = limit.weight(of: claim)
    var held: HeldSlot?
    for number in 0..<weight {
      guard let index = takeAny(below: limit.units, word) ?? takeNew(below: limit.units, word)
      else { break }
      // The first slot of the chain is the one that was taken last, and has the units.
      held = begin(
        index, word, units: number + 1 == weight ? weight : 0, at: sb_coarse_nanoseconds(),
        next: held?.index)
    }
    guard let held else { return nil }
    let usage = usage
    let isComplete = unsafe sb_load(line(held.index, .units)) == UInt64(weight)
    let isAllowed =
      usage.total <= limit.units && usage[claim.priority] <= limit.most(claim.priority)
      && permitsInRamp(weight, beside: usage.total - weight)
    guard isComplete, isAllowed, (gate.bits ^ before.bits) & GateWord.shape == 0 else {
      _ = giveBack(held.index, word)
      return nil
    }
    return held
  }

  private func enterWithCare(
    _ claim: CallClaim, _ terms: SlotTerms, _ wait: SlotWait?, isHeld: Bool
  ) -> SlotEntry {
    switch prepare(claim, terms, looks: wait == nil, isHeld: isHeld) {
    case .entry(let entry): entry
    case .owner(let own): attend(claim, terms, own, wait)
    }
  }

  /// Does everything for a call but wait for its turn.
  ///
  /// - Parameters:
  ///   - claim: How much the call takes, and its priority.
  ///   - terms: The limit that the caller knows.
  ///   - looks: Whether it looks for owners that have ended; a caller that waits does so anyway.
  ///   - isHeld: Whether it does not begin although there is room.
  /// - Returns: The answer, or the owner in whose name the caller has to wait.
  func prepare(
    _ claim: CallClaim, _ terms: SlotTerms, looks: Bool, isHeld: Bool
  ) -> Prepared {
    guard let own = owners.own ?? owners.register() else {
      guard terms.rate != 0 else { return .entry(.unseen) }
      guard adopt(terms) else { return .entry(.outdated) }
      return .entry(!isHeld && beginUnderRate() == nil ? .unseen : .busy)
    }
    guard adopt(terms) else { return .entry(.outdated) }
    if isHeld { return .owner(own) }
    if let held = take(claim, terms) { return .entry(.begun(held)) }
    if terms.rampUntil != nil {
      if looks, !hasRoom(for: claim) { _ = lookForTheDead() }
      return .owner(own)
    }
    if looks, lookForTheDead(), let held = take(claim, terms) { return .entry(.begun(held)) }
    return .owner(own)
  }

  enum Prepared {
    /// The call is decided.
    case entry(SlotEntry)

    /// It has to wait, in the name of this process.
    case owner(UInt64)
  }

  /// Puts terms in force, unless later ones are; false then.
  @discardableResult package func adopt(_ terms: SlotTerms) -> Bool {
    while true {
      // Before the revision, so that a process that is stopped in between puts nothing back that was replaced.
      let (before, ramp, rate) = (gate, unsafe sb_see(header(.ramp)), rate)
      let revision = Int64(bitPattern: unsafe sb_see(header(.revision)))
      let isSame = before.bits & GateWord.shape == terms.shape
      guard terms.revision >= revision else {
        return before.limit == terms.limit && hasRamp(of: terms) && hasRate(of: terms)
      }
      if isSame, hasRamp(of: terms), hasRate(of: terms) { return true }
      if terms.revision > revision {
        guard replaceRevision(revision, by: terms.revision) else { continue }
      }
      if replaceRate(rate, by: terms), replaceRamp(ramp, by: terms),
        isSame || replaceLimit(before, by: terms)
      {
        return true
      }
    }
  }

  /// Puts terms in force for certain.
  ///
  /// A revision that is later than all that the store holds was damaged, or belongs to a store of which
  /// an older copy has taken the place. It must not keep callers away for good.
  package func impose(_ terms: SlotTerms) {
    while true {
      let revision = Int64(bitPattern: unsafe sb_see(header(.revision)))
      if terms.revision >= revision || replaceRevision(revision, by: terms.revision) { break }
    }
    adopt(terms)
  }

  /// The limit in force, as terms that never replace others; nil if it was damaged, or before the first
  /// call.
  package func termsInForce(places: Int) -> SlotTerms? {
    gate.limit.map { limit in
      var terms = SlotTerms(limit, places: places, revision: .min, rampUntil: rampUntil)
      terms.rate = rateInForce
      return terms
    }
  }

  private func replaceRevision(_ found: Int64, by revision: Int64) -> Bool {
    unsafe sb_decide(
      header(.revision), UInt64(bitPattern: found), UInt64(bitPattern: revision)) != 0
  }

  private func replaceLimit(_ before: GateWord, by terms: SlotTerms) -> Bool {
    // A limit has its slots from the beginning, if the disk has room for them. Without one, calls get what they need.
    let isUnlimited = terms.limit.units == SlotTerms.most
    let slots = isUnlimited ? SlotFile.linesAtFirst : terms.limit.units
    if !makeRoom(forSlots: slots) { _ = makeRoom(forSlots: min(slots, SlotFile.linesAtFirst)) }
    let isNarrowed = (terms.limit.units..<max(terms.limit.units, slotExtent)).contains {
      !word(ofSlot: $0).isFree
    }
    let after = before.next(terms.limit, isNarrowed: isNarrowed || before.limit != nil)
    guard unsafe sb_decide(header(.gate), before.bits, after.bits) != 0 else { return false }
    settle()
    return true
  }
}

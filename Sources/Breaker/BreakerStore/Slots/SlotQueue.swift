internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// How long a caller waits for its turn.
package struct SlotWait: Sendable {
  /// When it gives up, on the monotonic clock.
  let until: Int64

  /// Whether it still wants to wait; asked before each sleep, and whenever the caller is woken.
  let isWanted: @Sendable () -> Bool

  /// Whether the caller takes a place in the queue even if there is room.
  let isHeld: Bool

  /// Until when the caller does not begin although there is room, on the monotonic clock; nil if it may begin.
  ///
  /// Asked only of the first in the queue, and only if there is room for it.
  let heldUntil: @Sendable () -> Int64?

  /// When the ramp ends that keeps the first in the queue from beginning, on the monotonic clock, or when to ask again;
  /// nil if the breaker is in none.
  let rampUntil: @Sendable () -> Int64?

  /// Called if a caller that might begin has found no room after all.
  let foundNoRoom: @Sendable () -> Void

  /// The caller's place in the order, which it keeps if it has to wait again; nil if it draws another one.
  let standing: Standing?

  /// Runs a body in which the thread sleeps; nil if that takes nothing else.
  private let asleep: (@Sendable (() -> Void) -> Void)?

  /// The place of a caller in the order of arrival.
  package final class Standing: Sendable {
    private let word = Atomic<Int64>(0)

    package init() {}

    /// The ticket that was drawn for the caller; nil before that.
    var ticket: Int64? {
      get {
        let ticket = word.load(ordering: .relaxed)
        return ticket > 0 ? ticket : nil
      }
      set { word.store(newValue ?? 0, ordering: .relaxed) }
    }
  }

  package init(
    atMost timeout: Duration, while isWanted: @escaping @Sendable () -> Bool = { true }
  ) {
    self.init(until: Patience.deadline(after: timeout), while: isWanted)
  }

  /// A wait until an instant of the monotonic clock.
  package init(
    until end: Int64, while isWanted: @escaping @Sendable () -> Bool,
    isHeld: Bool = false, heldUntil: @escaping @Sendable () -> Int64? = { nil },
    rampUntil: @escaping @Sendable () -> Int64? = { nil },
    foundNoRoom: @escaping @Sendable () -> Void = {}, as standing: Standing? = nil,
    asleep: (@Sendable (() -> Void) -> Void)? = nil
  ) {
    self.standing = standing
    until = end
    self.isWanted = isWanted
    self.isHeld = isHeld
    self.heldUntil = heldUntil
    self.rampUntil = rampUntil
    self.foundNoRoom = foundNoRoom
    self.asleep = asleep
  }

  /// Why the caller goes on without its turn; nil if it waits on.
  var refusal: SlotEntry? {
    if Patience.isOver(at: until) { return .busy }
    return isWanted() ? nil : .unwanted
  }

  /// Runs a body in which the thread sleeps, with all that the caller wants done around it.
  func sleeping(_ body: () -> Void) {
    if let asleep { asleep(body) } else { body() }
  }

  /// How many nanoseconds are left until an instant of the monotonic clock.
  package static func left(until end: Int64) -> Int64 {
    end.subtractingSaturating(Patience.monotonicNanoseconds())
  }

  /// When a wait that begins now and lasts at most so many nanoseconds ends.
  package static func end(ofAtMost nanoseconds: Int64) -> Int64 {
    Patience.deadline(after: nanoseconds)
  }
}

/// The queue of a breaker.
///
/// A caller takes a place, draws a ticket, and raises a flag in the gate, which no call passes then. Only
/// the head of the queue takes slots. A caller that leaves the queue or frees a slot checks whether the new
/// head of the queue has room, and wakes it: one waiter is woken for each slot. A caller that does not wait
/// takes a place for a moment if it cannot tell its turn otherwise.
extension SlotBlock {
  /// Waits for the turn of a call.
  func attend(
    _ claim: CallClaim, _ terms: SlotTerms, _ own: UInt64, _ wait: SlotWait?
  ) -> SlotEntry {
    if wait == nil, !hasRoom(for: claim) { return .busy }
    guard let caller = arrive(claim, own, isBrief: wait == nil, as: wait?.standing) else {
      return .busy
    }
    defer { leave(caller) }
    guard let wait else { return attendBriefly(caller, claim, own) }
    let planned = rate
    guard hasPlace(for: caller, among: terms.places), canMakeIt(caller, by: wait.until) else {
      return .busy
    }
    let start = Patience.monotonicNanoseconds()
    let entry = attend(caller, claim, own, wait, since: planned)
    noteWait(Patience.monotonicNanoseconds() - start, hasBegun: entry.hasBegun)
    return entry
  }

  /// Tries for a moment to begin a call that does not wait.
  private func attendBriefly(_ caller: Caller, _ claim: CallClaim, _ own: UInt64) -> SlotEntry {
    for _ in 0..<Self.briefTries {
      guard isPresent(caller) else { return .busy }
      let first = first
      // It takes no room from a caller that waits for some.
      if claim.needsNoRoom, let first, !hasRoomBesideRate(for: self.claim(of: first)) {
        return takeWithCare(claim, own) ?? .busy
      }
      if first?.index == caller.index {
        return takeWithCare(claim, own) ?? .busy
      }
      // A caller that does not wait is gone in a moment. One that waits may be stopped, and if it is the only one
      // that waits, no watcher sees that.
      guard first?.word.isBrief == true || lookInTurn() == .changed else { return .busy }
      sched_yield()
    }
    return .busy
  }

  private func attend(
    _ caller: Caller, _ claim: CallClaim, _ own: UInt64, _ wait: SlotWait, since planned: RateWord
  ) -> SlotEntry {
    let bell = unsafe waiter(caller.index, .bell)
    var isRung = true
    var last: UInt32 = 0
    var nextLook: Int64 = 0
    var heldUntil: Int64?
    var planned = planned
    while true {
      let heard = unsafe sb_bell(bell)
      // A thread whose wait can be interrupted wakes far more often than it has to look.
      let looks =
        isRung || heard != last
        || Patience.monotonicNanoseconds() >= min(nextLook, wait.until, heldUntil ?? .max)
      if looks {
        guard isPresent(caller) else { return .busy }
        heldUntil = nil
        if due?.index == caller.index {
          heldUntil = wait.heldUntil()
          if heldUntil == nil, let entry = takeWithCare(claim, own) { return entry }
          noteHeld(caller, until: heldUntil, wait)
        }
        // No process tells the first in the queue that the time of a ramp is over.
        if heldUntil == nil, rampAllowance != nil, first?.index == caller.index {
          heldUntil = wait.rampUntil()
        }
        if !canMakeIt(caller, by: wait.until, since: &planned) { return .busy }
        if isRated, let turn = planTurn(of: caller) { heldUntil = min(heldUntil ?? .max, turn) }
      }
      if let refusal = wait.refusal {
        // The process that changed the breaker may not have woken the others.
        if refusal == .unwanted { ringNext(after: caller) }
        return refusal
      }
      if looks {
        let next = lookAfterAll { $0 == caller.index }
        nextLook = next ?? SlotCare.soon
      }
      last = heard
      isRung = false
      let end = min(wait.until, nextLook, heldUntil ?? .max)
      wait.sleeping { isRung = unsafe sb_await(bell, heard, end) != 0 }
    }
  }

  /// Wakes the next waiter, so that it asks whether it still wants to wait.
  func ringNext(after caller: Caller) {
    var next: Caller?
    for index in 0..<placeExtent where index != caller.index {
      let word = word(ofPlace: index)
      guard word.isWaiting, !word.isBrief else { continue }
      if let found = next, found.word.place < word.place { continue }
      next = Caller(index: index, word: word)
    }
    if let next { ring(next.index) }
  }

  /// Notes that the first in the queue has not begun although there was room, and is awake.
  func noteHeld(_ caller: Caller, until end: Int64?, _ wait: SlotWait) {
    guard let end else { return wait.foundNoRoom() }
    // Ahead of now, so that a watcher need not call it to see that it is not stopped.
    let ahead = min(max(0, SlotWait.left(until: end)), SlotCare.longestAhead)
    unsafe sb_set(
      waiter(caller.index, .awake), UInt64(bitPattern: sb_coarse_nanoseconds() + ahead))
  }

  /// Wakes the first in the queue if there is room for it, because it may begin now.
  package func wakeFirst() {
    // It may have said until when it need not be called, and be stopped by now.
    let now = UInt64(bitPattern: sb_coarse_nanoseconds())
    if let first, unsafe sb_load(waiter(first.index, .awake)) > now {
      unsafe sb_set(waiter(first.index, .awake), now)
    }
    settle()
  }

  /// Wakes all waiters, so that each asks whether it still wants to wait.
  package func wakeAll() {
    for index in 0..<placeExtent where word(ofPlace: index).isWaiting { ring(index) }
  }

  /// Whether the turn of a caller under the rate comes before it gives up, so that waiting makes sense.
  func canMakeIt(_ caller: Caller, by end: Int64) -> Bool {
    guard let (turn, now) = turnUnderRate(after: waiting(aheadOf: caller)) else { return true }
    return turn.subtractingSaturating(now) <= SlotWait.left(until: end)
  }

  /// Whether waiting still makes sense for a caller, if the rate is another one than when it looked last.
  func canMakeIt(_ caller: Caller, by end: Int64, since known: inout RateWord) -> Bool {
    let word = rate
    if word.isSame(as: known) { return true }
    known = word
    return canMakeIt(caller, by: end)
  }

  /// How often a caller that does not wait looks whether others that do not wait are gone.
  private static let briefTries = 1_000

  /// A waiter, and its place.
  struct Caller {
    var index: Int
    var word: PlaceWord
  }
}

/// Coming and going.
extension SlotBlock {
  /// Takes a place; nil if all are taken.
  ///
  /// With `ringing`, the bell of that process in the table of owners is rung for the caller. A caller that has waited
  /// before has a standing, and comes back to its place in the order.
  func arrive(
    _ claim: CallClaim, _ own: UInt64, isBrief: Bool, ringing ringer: Int? = nil,
    as standing: SlotWait.Standing? = nil
  ) -> Caller? {
    guard let index = takePlace(own) ?? takePlaceOfTheDead(own) else { return nil }
    unsafe sb_set(waiter(index, .ringer), UInt64(clamping: ringer.map { $0 + 1 } ?? 0))
    unsafe sb_set(waiter(index, .owner), own)
    // None for a call inside of another one, which needs no room.
    unsafe sb_set(
      waiter(index, .units), claim.needsNoRoom ? 0 : UInt64(clamping: max(1, claim.units)))
    unsafe sb_set(waiter(index, .turn), 0)
    let now = UInt64(bitPattern: sb_coarse_nanoseconds())
    unsafe sb_set(waiter(index, .since), now)
    unsafe sb_set(waiter(index, .awake), now)
    unsafe sb_set(waiter(index, .called), 0)
    // A call that does not wait has tried before whether it may pass the others.
    let passesOthers = claim.needsNoRoom && !isBrief
    let priority = passesOthers ? .ordinary : claim.priority
    let ticket =
      standing?.ticket
      ?? Int64(bitPattern: unsafe sb_next(header(.tickets)) & Self.ticketMask)
      + (passesOthers ? 0 : Self.firstTicketOutside)
    standing?.ticket = ticket
    let caller = Caller(
      index: index,
      word: PlaceWord(WaitingPlace(priority, ticket: ticket), isBrief: isBrief))
    unsafe sb_tell(place(index), caller.word.bits)
    // Rule of order 27: the flag comes after the place, and before the caller looks for room.
    raiseFlag(priority)
    return caller
  }

  private static let ticketMask: UInt64 = 1 << 59 - 1

  /// A call inside of another one goes before all that wait for room, because they may wait for the outer one.
  private static let firstTicketOutside: Int64 = 1 << 59

  private func takePlace(_ own: UInt64) -> Int? {
    for index in 0..<SlotFile.placesOfBlock {
      guard makeRoom(forPlaces: index + 1) else { return nil }
      guard word(ofPlace: index).isFree else { continue }
      if unsafe sb_decide(place(index), 0, PlaceWord(beingTakenBy: own).bits) != 0 { return index }
    }
    return nil
  }

  private func takePlaceOfTheDead(_ own: UInt64) -> Int? {
    // If this finds none, another caller may just have freed their places.
    _ = lookForTheDead()
    return takePlace(own)
  }

  private func raiseFlag(_ priority: CallPriority) {
    while true {
      let before = gate
      // A new word even if the flag is up: another process may just be about to take it down.
      let after = before.next(adding: GateWord.flag(of: priority))
      if unsafe sb_decide(header(.gate), before.bits, after.bits) != 0 { return }
    }
  }

  /// Gives up a place, and wakes the callers that follow from it.
  func leave(_ caller: Caller) {
    let absent = caller.word.noting(isAbsent: true)
    if unsafe sb_decide(place(caller.index), caller.word.bits, 0) == 0 {
      unsafe sb_decide(place(caller.index), absent.bits, 0)
    }
    settle()
    // A caller that came for a moment was no watcher.
    if !caller.word.isBrief { passOnWatch(after: caller) }
  }

  /// Whether a caller that is awake still has its place, into which it comes back if it was passed; also its answer
  /// if it was called.
  func isPresent(_ caller: Caller) -> Bool {
    unsafe sb_set(waiter(caller.index, .awake), UInt64(bitPattern: sb_coarse_nanoseconds()))
    if unsafe sb_load(waiter(caller.index, .called)) != 0 {
      unsafe sb_set(waiter(caller.index, .called), 0)
    }
    let absent = caller.word.noting(isAbsent: true)
    while true {
      let found = word(ofPlace: caller.index)
      if found == caller.word { return true }
      guard found == absent else { return false }
      if unsafe sb_decide(place(caller.index), absent.bits, caller.word.bits) != 0 {
        raiseFlag(caller.word.place.priority)
        return true
      }
    }
  }

  /// Whether a caller that has arrived is one of so many that may wait.
  func hasPlace(for caller: Caller, among places: Int) -> Bool {
    if waiting(before: caller) < places { return true }
    // Callers before it may have been killed, and another caller may just have freed their places.
    _ = lookForTheDead()
    return waiting(before: caller) < places
  }

  /// How many waited when a caller arrived.
  private func waiting(before caller: Caller) -> Int {
    (0..<placeExtent).count { index in
      let word = word(ofPlace: index)
      return word.isWaiting && !word.isBrief && word.place.ticket < caller.word.place.ticket
    }
  }
}

/// The order of callers.
extension SlotBlock {
  /// The first in the queue.
  var first: Caller? {
    var first: Caller?
    for index in 0..<placeExtent {
      let word = word(ofPlace: index)
      guard word.isWaiting else { continue }
      if let found = first, found.word.place < word.place { continue }
      first = Caller(index: index, word: word)
    }
    return first
  }

  func owner(ofWaiter index: Int) -> UInt64 { unsafe sb_load(waiter(index, .owner)) }

  func claim(of caller: Caller) -> CallClaim {
    let units = unsafe sb_load(waiter(caller.index, .units))
    var claim = CallClaim(units: Int(clamping: units), priority: caller.word.place.priority)
    claim.needsNoRoom = units == 0
    return claim
  }

  /// The first in the queue, if there is room for it.
  var due: Caller? {
    guard let first else { return nil }
    return hasRoom(for: claim(of: first)) ? first : nil
  }

  /// Takes down the flags for which no caller waits, and wakes the head of the queue if there is room for it.
  ///
  /// A process does so after each change of the callers that may begin: after it has freed a slot
  /// or a place, and after it has changed the limit.
  func settle() {
    while true {
      let before = gate
      var idle = before.bits & (GateWord.ordinaryWaits | GateWord.backgroundWaits)
      for index in 0..<placeExtent {
        let word = word(ofPlace: index)
        if word.isWaiting { idle &= ~GateWord.flag(of: word.place.priority) }
      }
      if before.has(GateWord.isNarrowed), let limit = before.limit,
        !(limit.units..<max(limit.units, slotExtent)).contains(where: { !word(ofSlot: $0).isFree })
      {
        idle |= GateWord.isNarrowed
      }
      if idle != 0 {
        // Rule of order 27: a caller that has come meanwhile has changed the word.
        let after = before.next(removing: idle)
        guard unsafe sb_decide(header(.gate), before.bits, after.bits) != 0 else { continue }
      }
      // If it does not come, it may be stopped: a watcher sees whether it is.
      if let due {
        ring(due.index)
      } else if isRated, let first {
        ringForEarlierTurn(first)
      }
      return
    }
  }

  /// Wakes a caller.
  func ring(_ index: Int) {
    let ringer = unsafe sb_see(waiter(index, .ringer))
    if ringer == 0 {
      unsafe sb_ring(waiter(index, .bell))
    } else {
      owners.ring(Int(clamping: ringer) - 1)
    }
  }
}

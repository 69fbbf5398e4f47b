package import BreakerCore
internal import CHost

/// The rate in force, and a ring of the instants at which its last calls have begun.
///
/// Each call begins by replacing an instant that is as old as the interval, or older, by its own. So each entry of the
/// ring is replaced at most once in any interval, and no more calls begin than the ring has entries, whichever entry a
/// call takes and wherever a process is stopped or killed. The cursor only says where to look first.
extension SlotBlock {
  var rate: RateWord { RateWord(bits: unsafe sb_see(header(.rate))) }

  /// Whether a rate is in force.
  var isRated: Bool { !rate.isNone }

  private func instant(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(SlotFile.offsetOfRing + index * 8)
  }

  /// The store's time, in nanoseconds.
  private var now: Int64 {
    // 0 stands for no instant.
    max(1, clock.isSystem ? sb_boot_nanoseconds() : clock.instant.nanoseconds)
  }

  /// How many entries of the ring may have been used, as far as this process can reach them.
  private var ringExtent: Int {
    min(ringCapacity, Int(clamping: unsafe sb_see(header(.ringExtent))))
  }

  /// How many entries have to be there for a rate of so many calls, and for what still counts of earlier ones.
  func entries(forCalls calls: Int) -> Int {
    min(CallRate.most, max(calls, Int(clamping: unsafe sb_see(header(.ringExtent)))))
  }

  /// Lets a call begin under the rate in force.
  ///
  /// - Returns: Nil if it has begun, or if there is no rate; otherwise the earliest instant at which it may begin.
  func beginUnderRate() -> Int64? {
    while true {
      let word = rate
      guard !word.isNone else { return nil }
      if word.isNarrowed, let later = turnWhileNarrowed(word, at: now) { return later }
      var claim: Claim
      switch claimed(word, at: now) {
      case .later(let later): return later
      case .begun(let made): claim = made
      }
      guard isPrompt(&claim) else { continue }
      // A lower rate that was put in force meanwhile did not see this call.
      let isMine = !word.isNarrowed || !isTooMany(word, with: claim)
      if isMine, word.isStillMet(by: rate) { return nil }
      unsafe sb_decide(instant(claim.index), UInt64(bitPattern: claim.at), claim.replaced)
      // Or the entry would be the last one that callers look at.
      let next = claim.index + 1 == word.calls ? 0 : claim.index + 1
      unsafe sb_decide(header(.ringCursor), UInt64(next), UInt64(claim.index))
    }
  }

  /// Whether a call begins at the instant in its entry.
  ///
  /// A caller that was stopped after it had read the clock corrects it. If the entry is another call's by then, it has not
  /// begun.
  private func isPrompt(_ claim: inout Claim) -> Bool {
    // A host that never gets from one reading to the next in time could go on for ever.
    for _ in 0..<Self.mostCorrections {
      let after = now
      if after - claim.at <= Self.promptness { return true }
      let (before, corrected) = (UInt64(bitPattern: claim.at), UInt64(bitPattern: after))
      guard unsafe sb_decide(instant(claim.index), before, corrected) != 0 else { return false }
      claim.at = after
    }
    return true
  }

  private static let mostCorrections = 16

  /// How late a call may begin after the instant in its entry; a virtual machine may take microseconds to read a clock.
  private static let promptness: Int64 = 10_000

  /// How far an instant may be ahead of the clock of another processor.
  private static let mostAhead: Int64 = 1_000_000

  /// How soon to ask again while this process does not know the rate in force.
  private static let pauseOfNews: Int64 = 50_000_000

  private struct Claim {
    var index: Int
    var at: Int64
    var replaced: UInt64
  }

  private enum ClaimAnswer {
    case begun(Claim)
    case later(Int64)
  }

  /// Replaces an instant that is old enough by the present one.
  private func claimed(_ word: RateWord, at before: Int64) -> ClaimAnswer {
    // Another process may have put more in force than this one has yet reached; of fewer entries fewer calls begin.
    let (calls, interval) = (min(word.calls, ringCapacity), word.interval)
    guard calls > 0 else { return .later(before.addingSaturating(Self.pauseOfNews)) }
    let start = unsafe sb_load(header(.ringCursor))
    var index = Int(start % UInt64(calls))
    var now = before
    var earliest = Int64.max
    for _ in 0..<(word.isUnordered ? calls : min(calls, Self.mostLooks)) {
      let found = unsafe sb_load(instant(index))
      let free = freeInstant(of: found, interval, &now)
      if free <= now {
        let next = index + 1 == calls ? 0 : index + 1
        if unsafe sb_decide(instant(index), found, UInt64(bitPattern: now)) != 0 {
          if calls == word.calls { unsafe sb_decide(header(.ringCursor), start, UInt64(next)) }
          return .begun(Claim(index: index, at: now, replaced: found))
        }
      } else {
        earliest = min(earliest, free)
      }
      index = index + 1 == calls ? 0 : index + 1
    }
    if word.isUnordered { lookForOrder(word) }
    // Only if others have claimed all of them meanwhile is there no earliest one.
    return .later(earliest == .max ? now : earliest)
  }

  /// Notes that the entries are in the order of their instants from the cursor on, if they are.
  private func lookForOrder(_ word: RateWord) {
    // A process that does not reach all entries cannot know.
    guard word.calls <= ringCapacity else { return }
    // Calls that begin at once may have their instants the other way round, which costs others no more than that.
    let disorder = min(Self.mostAhead, word.interval / 1_024)
    let start = Int(unsafe sb_load(header(.ringCursor)) % UInt64(word.calls))
    var latest: Int64 = 0
    for offset in 0..<word.calls {
      let found = Int64(clamping: unsafe sb_load(instant((start + offset) % word.calls)))
      if found < latest.subtractingSaturating(disorder) { return }
      latest = max(latest, found)
    }
    unsafe sb_decide(header(.rate), word.bits, word.unordered(false).bits)
  }

  /// How many entries a call looks at: processes that were killed may have left the cursor a little behind.
  private static let mostLooks = 64

  /// From when on an entry may be replaced.
  ///
  /// An instant ahead of the clock is of another boot, or was damaged, and counts as free. It may also be that of a call
  /// which has begun since this caller has read the clock, so the clock is read again.
  private func freeInstant(of found: UInt64, _ interval: Int64, _ now: inout Int64) -> Int64 {
    guard found != 0 else { return now }
    let begun = Int64(clamping: found)
    if begun > now { now = max(now, self.now) }
    if begun > now.addingSaturating(Self.mostAhead) { return now }
    return begun.addingSaturating(interval)
  }

  /// When a caller may begin that comes after so many others; not after `now` if that is at once.
  func turnUnderRate(after others: Int = 0) -> (turn: Int64, now: Int64)? {
    let word = rate
    guard !word.isNone else { return nil }
    var now = now
    let (calls, interval) = (min(word.calls, ringCapacity), word.interval)
    guard calls > 0 else { return (now.addingSaturating(Self.pauseOfNews), now) }
    let rounds = Int64(others / calls).multipliedSaturating(by: interval)
    if word.isUnordered { lookForOrder(word) }
    if word.isNarrowed || word.isUnordered {
      let begun = instantsThatCount(word, at: now)
      // So many have to be older than the interval before there is room for the caller.
      let index = begun.count - calls + others % calls
      guard index >= 0 else { return (now.addingSaturating(rounds), now) }
      let turn = begun[min(index, begun.count - 1)].addingSaturating(interval)
      return (turn.addingSaturating(rounds), now)
    }
    let start = Int(unsafe sb_load(header(.ringCursor)) % UInt64(calls))
    // The cursor may be a little behind the oldest entry, with which the order begins.
    var oldest = (index: start, turn: Int64.max)
    for offset in 0..<min(calls, Self.mostLooks) {
      let index = (start + offset) % calls
      let turn = freeInstant(of: unsafe sb_load(instant(index)), interval, &now)
      if turn < oldest.turn { oldest = (index, turn) }
    }
    let index = (oldest.index + others % calls) % calls
    let turn = freeInstant(of: unsafe sb_load(instant(index)), interval, &now)
    return (turn.addingSaturating(rounds), now)
  }

  /// How far the rate is used up; nil without one, or if this process cannot reach all instants.
  var rateUse: SlotRateUse? {
    let word = rate
    guard !word.isNone, word.calls <= ringCapacity,
      let (turn, now) = turnUnderRate(after: waitingCallers(before: .ordinary))
    else { return nil }
    return SlotRateUse(
      begun: instantsThatCount(word, at: now).count,
      nanosecondsToNext: max(0, turn.subtractingSaturating(now)), word: word)
  }
}

extension SlotBlock {
  /// Reads the instants of a rate into a block that is a copy, if there is a rate.
  func copyRing(of file: SharedFile, at offset: Int) {
    let bytes = isRated ? entries(forCalls: rate.calls) * 8 : 0
    let ring = SlotFile.offsetOfRing
    if bytes > 0, mapping.copy(file, from: offset + ring, to: ring, bytes) {
      useRing(of: bytes / 8)
    }
  }

  /// Sees to it that a rate of so many calls has room on the disk for its instants.
  func reserveRing(of calls: Int, in file: SharedFile, at index: Int) {
    let entries = entries(forCalls: calls)
    guard calls > 0, entries > ringCapacity else { return }
    let offset = SlotFile.offset(ofBlock: index) + SlotFile.offsetOfRing
    if file.reserve(offset, entries * 8) { useRing(of: entries) }
  }

  /// Forgets all instants of the breaker that had the block before; false if it cannot.
  func clearRing(of file: SharedFile, at offset: Int) -> Bool {
    let entries = min(CallRate.most, Int(clamping: unsafe sb_see(header(.ringExtent))))
    guard entries == 0 || file.reserve(offset + SlotFile.offsetOfRing, entries * 8) else {
      return false
    }
    for index in 0..<entries { unsafe sb_tell(instant(index), 0) }
    return true
  }
}

/// How far a rate is used up.
package struct SlotRateUse: Sendable, Hashable {
  /// How many calls have begun in the interval that ends now.
  package var begun: Int

  /// How long until an ordinary call may begin that comes now, after those that wait; 0 if it may begin at once.
  package var nanosecondsToNext: Int64

  /// The rate by which this was found.
  private let word: RateWord?

  package init(begun: Int, nanosecondsToNext: Int64) {
    self.init(begun: begun, nanosecondsToNext: nanosecondsToNext, word: nil)
  }

  init(begun: Int, nanosecondsToNext: Int64, word: RateWord?) {
    self.begun = begun
    self.nanosecondsToNext = nanosecondsToNext
    self.word = word
  }

  /// Whether this is about a rate; not if no call has begun yet since the policy was changed.
  package func isOf(_ rate: CallRate) -> Bool {
    let other = RateWord(rate, isOnlyBound: false)
    return word.map { $0.calls == other.calls && $0.interval == other.interval } ?? true
  }
}

/// After a rate was lowered, until what has begun before is as old as the interval.
extension SlotBlock {
  /// The instants of the calls that count now, the earliest first.
  private func instantsThatCount(_ word: RateWord, at now: Int64) -> [Int64] {
    var now = now
    return (0..<max(min(word.calls, ringCapacity), ringExtent)).compactMap { index -> Int64? in
      let found = unsafe sb_load(instant(index))
      return freeInstant(of: found, word.interval, &now) > now ? Int64(clamping: found) : nil
    }.sorted()
  }

  private func countOfInstants(_ word: RateWord, at now: Int64) -> Int {
    var now = now
    return (0..<max(min(word.calls, ringCapacity), ringExtent)).count { index in
      freeInstant(of: unsafe sb_load(instant(index)), word.interval, &now) > now
    }
  }

  /// The earliest instant at which another call may begin; nil if it may begin now.
  private func turnWhileNarrowed(_ word: RateWord, at now: Int64) -> Int64? {
    guard countOfInstants(word, at: now) >= word.calls else {
      var time = now
      let extent = ringExtent
      let isOver = (min(word.calls, extent)..<extent).allSatisfy { index in
        freeInstant(of: unsafe sb_load(instant(index)), word.interval, &time) <= time
      }
      if isOver { unsafe sb_decide(header(.rate), word.bits, word.narrowed(false).bits) }
      return nil
    }
    let begun = instantsThatCount(word, at: now)
    let index = begun.count - word.calls
    return index < 0 ? nil : begun[index].addingSaturating(word.interval)
  }

  /// Whether more calls count now than the rate allows, with one that has just been claimed.
  private func isTooMany(_ word: RateWord, with claim: Claim) -> Bool {
    // The caller may have been stopped since its instant, so calls that have begun after it count as well.
    let latest = now.addingSaturating(Self.mostAhead)
    let count = (0..<max(min(word.calls, ringCapacity), ringExtent)).count { index in
      let begun = Int64(clamping: unsafe sb_load(instant(index)))
      return begun != 0 && begun <= latest && begun.addingSaturating(word.interval) > claim.at
    }
    return count > word.calls
  }
}

/// The rate of some terms.
extension SlotBlock {
  /// Whether the rate in force is that of some terms.
  func hasRate(of terms: SlotTerms) -> Bool { rate.isSame(as: RateWord(bits: terms.rate)) }

  /// Puts the rate of some terms in force; false if another process has changed it since it was read.
  func replaceRate(_ before: RateWord, by terms: SlotTerms) -> Bool {
    let next = RateWord(bits: terms.rate)
    if before.isSame(as: next) { return true }
    let (extent, start) = (ringExtent, unsafe sb_load(header(.ringCursor)))
    if !next.isNone { raise(.ringExtent, to: next.calls) }
    let isNarrowed = !next.isNone && next.calls < ringExtent
    // Of few entries, each call looks at all, and empty ones are in any order.
    let isUnordered = next.calls > Self.mostLooks && extent > 0 && !next.isNone
    let word = next.narrowed(isNarrowed).unordered(isUnordered)
    guard unsafe sb_decide(header(.rate), before.bits, word.bits) != 0 else { return false }
    // The order begins with the oldest one of the new ring. Calls that have begun meanwhile have moved the cursor.
    if !next.isNone {
      let oldest = oldestEntry(of: next, from: start)
      unsafe sb_decide(header(.ringCursor), start, UInt64(oldest))
    }
    // Callers that wait for their turn have planned it by the earlier rate.
    if isAwaited { settle() }
    return true
  }

  private func oldestEntry(of word: RateWord, from cursor: UInt64) -> Int {
    let calls = max(1, min(word.calls, ringCapacity))
    let start = Int(cursor % UInt64(calls))
    var (oldest, instantOfIt) = (start, UInt64.max)
    // From the cursor on, so that of entries with the same instant the one is first that was replaced first.
    for offset in 0..<min(calls, ringCapacity) {
      let index = (start + offset) % calls
      let found = unsafe sb_load(instant(index))
      if found < instantOfIt { (oldest, instantOfIt) = (index, found) }
    }
    return oldest
  }

  /// The rate in force, as terms have it.
  var rateInForce: UInt64 { rate.plain.bits }

  /// Whether a call that finds no slot begins without one, because a rate is all that bounds the calls.
  var isBoundByRateOnly: Bool { rate.isOnlyBound && rampAllowance == nil }
}

/// Waiting for the turn under a rate.
extension SlotBlock {
  /// When a caller that waits has its turn under the rate, on the monotonic clock, and not before `now`; nil if only room
  /// is in its way, or if there is no rate.
  ///
  /// The caller sleeps until then. It notes the instant, so that a process which leaves the queue before it knows
  /// whether it would come late.
  func planTurn(of caller: Caller) -> Int64? {
    let turn = turnOnMonotonicClock(after: waiting(aheadOf: caller))
    unsafe sb_set(waiter(caller.index, .turn), UInt64(clamping: turn ?? 0))
    return turn
  }

  /// When a caller that has yet to wait, or is about to, would have its turn.
  func turnOnMonotonicClock(after others: Int) -> Int64? {
    guard let (turn, now) = turnUnderRate(after: others), turn > now else { return nil }
    let left = turn.subtractingSaturating(now)
    // Another clock may be set forward at any time, and wakes no thread then.
    return SlotWait.end(ofAtMost: clock.isSystem ? left : min(left, Self.pauseOfOtherClock))
  }

  private static let pauseOfOtherClock: Int64 = 5_000_000

  /// How many callers that wait are served before another one.
  func waiting(aheadOf caller: Caller) -> Int {
    (0..<placeExtent).count { index in
      let word = word(ofPlace: index)
      return word.isWaiting && index != caller.index && word.place < caller.word.place
    }
  }

  /// How many callers wait that are served before one that comes now.
  private func waitingCallers(before priority: CallPriority) -> Int {
    (0..<placeExtent).count { index in
      let word = word(ofPlace: index)
      return word.isWaiting && !word.isBrief
        && (priority == .background || word.place.priority == .ordinary)
    }
  }

  /// Whether the first in the queue sleeps until its turn under the rate, and need not be called before.
  func isAsleepUntilTurn(_ index: Int) -> Bool {
    guard isRated, let turn = turnOnMonotonicClock(after: 0) else { return false }
    let planned = Int64(clamping: unsafe sb_load(waiter(index, .turn)))
    return planned != 0 && planned <= turn.addingSaturating(Self.lateness)
  }

  /// Wakes the first in the queue if it has planned its turn under the rate later than it comes.
  func ringForEarlierTurn(_ first: Caller) {
    guard isRated, hasRoomBesideRate(for: claim(of: first)) else { return }
    // It may have come since the caller of this looked.
    guard let turn = turnOnMonotonicClock(after: 0) else { return ring(first.index) }
    let planned = Int64(clamping: unsafe sb_load(waiter(first.index, .turn)))
    if planned == 0 || planned > turn.addingSaturating(SlotBlock.lateness) { ring(first.index) }
  }

  /// How much later than possible a caller may have planned its turn.
  private static let lateness: Int64 = 1_000_000

  /// How long until the rate lets a caller begin that comes after all that wait, in nanoseconds, whatever else is in its
  /// way; 0 if the rate is not.
  package func rateDelay(for claim: CallClaim) -> Int64 {
    guard let (turn, now) = turnUnderRate(after: waitingCallers(before: claim.priority)) else {
      return 0
    }
    return max(0, turn.subtractingSaturating(now))
  }

  /// How long until a caller that does not wait would have its turn under the rate, in nanoseconds; nil if that is not
  /// what is in its way.
  package func rateWait(for claim: CallClaim) -> Int64? {
    // A caller that waits for room may go before it.
    if !claim.needsNoRoom, let first,
      claim.priority == .background || first.word.place.priority == .ordinary,
      !hasRoomBesideRate(for: self.claim(of: first))
    {
      return nil
    }
    guard hasRoomBesideRate(for: claim),
      let (turn, now) = turnUnderRate(after: waitingCallers(before: claim.priority))
    else { return nil }
    return max(0, turn.subtractingSaturating(now))
  }
}

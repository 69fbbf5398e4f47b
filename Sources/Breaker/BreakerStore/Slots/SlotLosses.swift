package import BreakerCore
internal import CHost

/// Calls that were under way when their process ended, for a breaker to count.
package struct LostCalls: Sendable, Hashable {
  /// Their processes as far as they are known, each once; the one that was found last comes last.
  package let processes: [ProcessIdentity]
  package let calls: Int

  /// How many of the calls found so far the breaker has counted if it counts these.
  let countedThen: Int64

  /// The slots in which they were found, each with its word that says so.
  let places: [Int: UInt64]

  init(
    of processes: [ProcessIdentity], in places: [Int: UInt64] = [:], _ uncounted: Int64,
    of found: Int64
  ) {
    // A transaction counts no more calls than any limit lets begin.
    calls = Int(min(uncounted, Int64(SlotTerms.most)))
    countedThen = found - uncounted + Int64(calls)
    var known = Set<ProcessIdentity>()
    let latestFirst = processes.reversed().filter { known.insert($0).inserted }
    self.processes = latestFirst.prefix(calls).reversed()
    self.places = places
  }
}

/// Lost calls stay in the memory that processes share until a breaker has counted them. The process that
/// finds them may be killed, or may be unable to write the store.
///
/// Each slot says how many of its calls were found lost, and which one was the last, in one word that is
/// changed before the slot becomes free.
extension SlotBlock {
  /// Counts the call of an owner that has ended, whose slots are about to be freed.
  func noteLoss(ofSlot index: Int, _ found: SlotWord) {
    let (serial, units) = (
      UInt32(truncatingIfNeeded: unsafe sb_see(line(index, .serial))),
      unsafe sb_see(line(index, .units))
    )
    let before = LossWord(bits: unsafe sb_see(line(index, .loss)))
    // Only the first slot of a call has its units, and only while the call is under way. As long as the slot
    // has the same owner, what was read belongs to that call, because an owner that has ended takes nothing
    // any more.
    guard units > 0, before.serial != serial, word(ofSlot: index) == found,
      owners.hasLostCalls(found.owner)
    else { return }
    unsafe sb_tell(header(.lastLost), found.owner)
    unsafe sb_tell(line(index, .loser), found.owner)
    unsafe sb_decide(line(index, .loss), before.bits, before.next(serial).bits)
  }

  /// Makes known to all processes how many calls were found lost.
  func noteLosses() { raise(.losses, to: Int(foundLosses)) }

  private var foundLosses: Int64 {
    (0..<slotExtent).reduce(0) { $0 + Int64(lostCalls(ofSlot: $1) ?? 0) }
  }

  /// How many calls of a slot were found lost; nil if more than have begun in it, so that the word was damaged.
  func lostCalls(ofSlot index: Int) -> UInt32? {
    let calls = LossWord(bits: unsafe sb_see(line(index, .loss))).calls
    // The serial is read second, because it only grows.
    let serial = unsafe sb_see(line(index, .serial))
    return serial <= SlotBound.count && UInt64(calls) <= serial ? calls : nil
  }

  /// Whether calls were found lost of which it is not known that the breaker has counted them.
  package var hasUncountedLosses: Bool {
    unsafe sb_see(header(.losses)) != sb_see(header(.countedLosses))
  }

  /// The calls that were found lost, and that a breaker has yet to count.
  ///
  /// Only ask in a transaction on the breaker that counts them, so that no other process does so meanwhile.
  ///
  /// - Parameters:
  ///   - breaker: The row of the breaker.
  ///   - total: How many lost calls it has counted.
  /// - Returns: The losses to count now; nil if these are not the slots of that breaker.
  package func uncountedLosses(of breaker: Int64, in total: Int64) -> LostCalls? {
    guard breaker == self.breaker else { return nil }
    let known = unsafe sb_see(header(.losses))
    let found = foundLosses
    // Lowered too, because a damaged word may say more; but not below the losses that another process has just found.
    unsafe sb_decide(header(.losses), known, UInt64(found))
    let base = unsafe Int64(bitPattern: sb_see(header(.lossBase)))
    var ledger = LossLedger(
      base: base & 1 == 0 ? nil : base >> 1,
      counted: Int64(clamping: unsafe sb_see(header(.countedLosses))))
    let uncounted = ledger.uncounted(of: found, in: total)
    if let base = ledger.base {
      unsafe sb_tell(header(.lossBase), UInt64(bitPattern: base << 1 | 1))
    }
    var places: [Int: UInt64] = [:]
    var losers: [UInt64] = []
    for index in 0..<slotExtent {
      let (word, counted) = unsafe (sb_see(line(index, .loss)), sb_see(line(index, .countedLoss)))
      guard word != counted else { continue }
      places[index] = word
      losers.append(unsafe sb_see(line(index, .loser)))
    }
    let last = unsafe sb_see(header(.lastLost))
    if uncounted > 0 { losers = losers.filter { $0 != last } + [last] }
    return LostCalls(
      of: losers.compactMap { owners.process($0) }, in: places, uncounted, of: found)
  }

  /// Notes that a transaction was committed in which the breaker has counted these calls.
  package func noteCounted(_ lost: LostCalls) {
    unsafe sb_tell(header(.countedLosses), UInt64(clamping: lost.countedThen))
    for (index, word) in lost.places { unsafe sb_tell(line(index, .countedLoss), word) }
  }
}

/// The word of a slot that says how many of its calls were found lost, and which one was the last.
private struct LossWord {
  let bits: UInt64

  init(bits: UInt64) { self.bits = bits }

  var serial: UInt32 { UInt32(truncatingIfNeeded: bits) }
  var calls: UInt32 { UInt32(truncatingIfNeeded: bits >> 32) }

  func next(_ serial: UInt32) -> LossWord {
    LossWord(bits: UInt64(calls &+ 1) << 32 | UInt64(serial))
  }
}

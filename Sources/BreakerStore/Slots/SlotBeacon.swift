internal import CHost
internal import Synchronization

/// The beacon of this process in one block, by which those who wait learn that the process has ended.
///
/// A thread of the process keeps it lit. When that thread ends, however it ends, the kernel puts the beacon out
/// and wakes one of those who wait. Nothing but a look proves that the process has ended: a thread can end
/// before its process, which then lights the beacon again within a second, if it makes calls. Nobody has to look
/// after a process whose beacon is lit.
@safe final class SlotBeacon: Sendable {
  /// Where the lines are that this process writes; nil if it can have none.
  ///
  /// Unchecked because several processes change the memory, by atomic operations, and nobody unmaps it.
  private nonisolated(unsafe) let part: UnsafeMutableRawPointer?

  /// The number of the file, by which its beacons are told from those in a copy of it, which nobody puts out.
  let file: UInt32

  // The line, for which owner it was lit, and the fork depth for which that holds.
  private let index = Atomic<Int>(-1)
  private let owner = Atomic<UInt64>(0)
  private let forkDepth = Atomic<UInt64>(.max)

  /// Whether those who wait may not know yet that there is this beacon.
  private let isNews = Atomic(true)

  /// A beacon in a part of a file that stays mapped; it is never lit if there is none.
  init(in part: UnsafeMutableRawPointer?, of file: SharedFile) {
    unsafe self.part = part
    self.file = sb_number_of_file(file.descriptor)
  }

  // The thread that keeps the line goes on doing so: the next store of this process uses it.
  deinit {
    let index = index.load(ordering: .relaxed)
    guard let part = unsafe part, index >= 0,
      forkDepth.load(ordering: .relaxed) == ForkGuard.depth
    else { return }
    unsafe sb_disown(line(index, in: part), owner.load(ordering: .relaxed))
    unsafe ProcessSlots.putAside(beacon: index, in: part)
  }

  private func line(
    _ index: Int, in part: UnsafeMutableRawPointer
  ) -> UnsafeMutablePointer<sb_beacon> {
    unsafe (part + SlotFile.offsetOfBeacons).assumingMemoryBound(to: sb_beacon.self) + index
  }

  /// Lets the calling thread light the beacon for this process, unless another thread keeps it lit.
  ///
  /// The caller keeps other threads from doing so at the same time.
  func light(as owner: UInt64) {
    guard let part = unsafe part, !isLit(as: owner) else { return }
    if let index = unsafe ProcessSlots.beaconPutAside(in: part),
      unsafe sb_adopt(line(index, in: part), owner, file) != 0
    {
      return unsafe note(index, owner, in: part)
    }
    // Those who wait for the line that went out wait for it again.
    let last = index.load(ordering: .relaxed)
    for index in [max(0, last)] + Array(0..<SlotFile.beacons)
    where unsafe sb_light(line(index, in: part), owner, file) != 0 {
      return unsafe note(index, owner, in: part)
    }
  }

  private func note(_ index: Int, _ owner: UInt64, in part: UnsafeMutableRawPointer) {
    unsafe SlotBlock.raise(
      part.assumingMemoryBound(to: UInt64.self) + SlotBlock.HeaderWord.beacons.rawValue,
      to: index + 1)
    self.owner.store(owner, ordering: .relaxed)
    forkDepth.store(ForkGuard.depth, ordering: .relaxed)
    let earlier = self.index.exchange(index, ordering: .relaxed)
    if earlier != index { isNews.store(true, ordering: .sequentiallyConsistent) }
  }

  func isLit(as owner: UInt64) -> Bool {
    let index = index.load(ordering: .relaxed)
    guard let part = unsafe part, index >= 0 else { return false }
    return unsafe sb_is_lit(line(index, in: part), owner, file) != 0
  }

  /// Tells those who wait of the beacon, if they may not know of it.
  func announce(_ tell: () -> Void) {
    guard isNews.load(ordering: .sequentiallyConsistent) else { return }
    tell()
    // Only now: until then, other threads tell them too before they take anything.
    isNews.store(false, ordering: .sequentiallyConsistent)
  }
}

/// What a thread that waits sleeps by: all beacons that are lit, so that it has to look after nobody.
@safe struct Vigil {
  fileprivate var all = sb_vigil()

  /// How often it has looked in a row at each block for those whose beacons are not lit.
  fileprivate var looks: [ObjectIdentifier: Int] = [:]

  /// How often it has found in a row that something has changed.
  private var changes = 0

  /// Forgets a block for which nobody keeps the vigil any more.
  mutating func forget(_ block: SlotBlock) {
    if !looks.isEmpty { looks[ObjectIdentifier(block)] = nil }
  }

  /// Forgets all beacons before they are seen again.
  mutating func begin() {
    all.count = 0
    all.is_full = 0
  }

  /// Whether it knows of a process that may have ended, and that others may not know of.
  var knowsOfAnEnd: Bool {
    // Mutating, because what only reads them would be handed a copy of all these words.
    mutating get { unsafe !looks.isEmpty || sb_vigil_is_over(&all) != 0 }
  }

  /// Until when to sleep; nil if something has changed, so that the thread looks again at once.
  ///
  /// In damaged memory, something may seem to change each time.
  mutating func sleep(until next: Int64?) -> Int64? {
    changes = next == nil ? changes + 1 : 0
    return changes > 3 ? Patience.monotonicNanoseconds() + 1_000_000 : next
  }

  /// Sleeps until a bell is rung, a beacon goes out, or it is time; it may also end early.
  ///
  /// - Returns: Whether something else than time has ended it.
  mutating func keep(
    at bell: UnsafeMutablePointer<UInt64>, _ heard: UInt32, until nanoseconds: Int64
  ) -> Bool {
    unsafe sb_await(bell, heard, &all, nanoseconds) != 0
  }
}

/// Who has slots and places, as far as their beacons tell.
struct SlotPresence {
  /// Whether the beacons of all others are lit, so that none of them has ended.
  var isLit = true

  /// Whether the end of any of them wakes the thread that keeps the vigil.
  var isWatched = true
}

extension SlotBlock {
  private var beacons: UnsafePointer<sb_beacon> {
    unsafe UnsafePointer(
      (mapping.address + SlotFile.offsetOfBeacons).assumingMemoryBound(to: sb_beacon.self))
  }

  private var beaconExtent: Int {
    min(SlotFile.beacons, Int(clamping: unsafe sb_see(header(.beacons))))
  }

  /// Sees who has slots and places, and adds all beacons that are lit to a vigil.
  func see(_ vigil: inout Vigil) -> SlotPresence {
    let own = owners.own ?? 0
    let first = vigil.all.count
    unsafe sb_vigil_add(&vigil.all, beacons, Int32(beaconExtent), own, beacon.file)
    var presence = SlotPresence()
    var known = own
    func note(_ owner: UInt64) {
      if owner == own || owner == known { return }
      known = owner
      if unsafe sb_vigil_has(&vigil.all, first, owner) == 0 { presence.isLit = false }
    }
    for index in 0..<slotExtent {
      let word = word(ofSlot: index)
      if !word.isFree { note(word.owner) }
    }
    for index in 0..<placeExtent {
      let word = word(ofPlace: index)
      if !word.isFree { note(word.claimant ?? owner(ofWaiter: index)) }
    }
    presence.isWatched =
      presence.isLit && vigil.all.is_full == 0 && sb_can_keep_vigil() != 0
    return presence
  }

  /// Lets those who wait know that this process has slots or a place, if they may not know.
  ///
  /// They may sleep without having seen its beacon, and must not be served after it: a call that comes later is
  /// served later, and sees those who are there. So this is for calls that go before others.
  @inline(never) func announce() {
    guard let own = owners.own, beacon.isLit(as: own) else {
      if isTurn(.watchedAt, every: SlotWatch.freshness) { ringWatchers() }
      return
    }
    beacon.announce { wakeAll() }
  }

  /// Lights the beacon of this process again, after the thread has ended that kept it lit.
  func keepBeaconLit() {
    if owners.lightAgain(beacon), isAwaited { announce() }
  }
}

/// Sleeping, for those who wait.
extension SlotBlock {
  /// How often one looks, at growing intervals, for those whose beacons are not lit.
  private static let mostLooks = 6

  /// Looks after all who wait, for a caller that is awake and waits itself.
  ///
  /// - Parameters:
  ///   - vigil: What the caller will sleep by. The beacons here are added to it.
  ///   - isRung: Whether somebody has woken the caller, or it has just come.
  ///   - isOwn: Whether a place is the caller's.
  /// - Returns: Until when the caller may sleep by the vigil; nil if something has changed, so that it
  ///   looks again at once.
  func lookAfterAll(
    _ vigil: inout Vigil, isRung: Bool, _ isOwn: (_ index: Int) -> Bool
  ) -> Int64? {
    let presence = see(&vigil)
    if presence.isLit {
      vigil.forget(self)
    } else {
      // It takes the kernel a while to end the whole of a process whose beacon has gone out.
      let looks = vigil.looks[ObjectIdentifier(self), default: 0] + 1
      vigil.looks[ObjectIdentifier(self)] = looks
      if looks <= Self.mostLooks {
        if lookForOneWhoEnds() { return nil }
        return Patience.monotonicNanoseconds() + 1_000_000 << Int64(looks)
      }
      // It lives, and its beacon is out: from now on somebody has to look.
      if looks == Self.mostLooks + 1 { ringWatchers() }
    }
    if lookFromTimeToTime(isWatched: presence.isWatched) { return nil }
    guard let isOthersTurn = noteAbsence(isRung: isRung, isOwn) else { return nil }
    return SlotWatch.nextLook(
      isWatching: isWatching(isOwn), isNeeded: !presence.isWatched, isOthersTurn: isOthersTurn)
  }
}

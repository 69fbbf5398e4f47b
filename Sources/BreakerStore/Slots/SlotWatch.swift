internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// What one process knows of those who have slots and places in a block, and do not live or do not come.
///
/// The kernel wakes one of those who wait when a process ends whose beacon is lit, so nobody looks after such
/// processes. A waiter can also be stopped at the very moment in which it is woken, and the store can be
/// changed by a program that wakes nobody. So of all callers that wait on the host, two look once a second: the
/// last one to be served, and the last one of another process. Where the beacon of a process that takes part is
/// out, or the kernel cannot wait for beacons, these two look 20 times a second, and all others once.
final class SlotWatch: Sendable {
  private let state = Guarded(State())

  private struct State {
    /// The first in the queue, for whom there was room, and since when.
    var due: (word: PlaceWord, since: Int64)?

    /// When to look for the dead again.
    var nextLook: Int64 = 0
  }

  /// How often the two look where somebody has to, and all others.
  private static let tick: Int64 = 50_000_000
  private static let second: Int64 = 1_000_000_000

  /// The shortest time between two looks on the host that believe locks.
  static let freshness: Int64 = 40_000_000

  /// The shortest time between two looks on the host that do not, though all beacons may be lit.
  ///
  /// The beacon of a thread that calls execve(2), and is not the first of its process, stays lit: the kernel gives
  /// the thread another number before it puts its beacons out.
  fileprivate static let round: Int64 = 1_000_000_000

  /// How long the others wait for one whose turn it is.
  private static let absence: Int64 = 100_000_000

  /// The shortest time between two looks of callers that find no room.
  private static let shortest: Int64 = 1_000_000

  /// A look takes no more of the time than this share.
  private static let share: Int64 = 10

  /// Until when a caller sleeps at most, on the monotonic clock.
  ///
  /// - Parameters:
  ///   - isWatching: Whether it is one of the two.
  ///   - isNeeded: Whether it takes looks to notice the end of a process.
  ///   - isOthersTurn: Whether it waits for another caller that may not come.
  /// - Returns: The instant; that of the end of time if it need not look.
  static func nextLook(isWatching: Bool, isNeeded: Bool, isOthersTurn: Bool) -> Int64 {
    if isOthersTurn || (isWatching && isNeeded) { return Patience.monotonicNanoseconds() + tick }
    return isWatching || isNeeded ? nextSecond : .max
  }

  /// Whether a caller that was awake at an instant of the coarse clock would have come by now.
  static func isLong(since awake: UInt64) -> Bool {
    sb_coarse_nanoseconds().subtractingSaturating(Int64(clamping: awake)) >= absence
  }

  static var nextSecond: Int64 { Patience.monotonicNanoseconds() + second }

  func willFork() { state.willFork() }
  func didFork() { state.didFork() }

  /// Runs a look, unless the last one was a moment ago; false then.
  fileprivate func look(_ body: () -> Bool) -> Bool {
    let start = Patience.monotonicNanoseconds()
    let mayLook = state.withLock { state in
      guard start >= state.nextLook else { return false }
      state.nextLook = start + Self.shortest
      return true
    }
    guard mayLook else { return false }
    let before = Self.workNanoseconds
    let isAny = body()
    // Not the time that passed: on a busy host, most of that went to others.
    let cost = Self.workNanoseconds - before
    state.withLock { $0.nextLook = start + max(Self.shortest, cost * Self.share) }
    return isAny
  }

  /// How long this thread has worked so far.
  private static var workNanoseconds: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// What becomes of the first in the queue, for whom there is room.
  fileprivate enum Turn {
    /// It may come yet.
    case awaited

    /// Another one has come since the last look.
    case passed

    /// It has not come for so long that nobody waits for it.
    case overdue
  }

  fileprivate func turn(of first: PlaceWord) -> Turn {
    let now = Patience.monotonicNanoseconds()
    return state.withLock { state in
      if let due = state.due, due.word == first {
        return now - due.since >= Self.absence ? .overdue : .awaited
      }
      defer { state.due = (first, now) }
      return state.due == nil ? .awaited : .passed
    }
  }

  fileprivate func forgetTurn() { state.withLock { $0.due = nil } }
}

extension SlotBlock {
  /// Frees what owners have that have ended, for a caller that finds no room; false if there is nothing.
  func lookForTheDead() -> Bool {
    var vigil = Vigil()
    if see(&vigil).isLit { return isTurn(.lookedAt, every: SlotWatch.round) && freeTheDead() }
    return watch.look { freeTheDead() }
  }

  /// The same, for a caller that waits where the beacon of a process has gone out.
  func lookForOneWhoEnds() -> Bool { freeTheDead(believingLocks: true) }

  private func freeTheDead(believingLocks: Bool = false) -> Bool {
    let isGone = owners.judgement(believingLocks: believingLocks)
    var isAny = false
    for index in 0..<slotExtent {
      let found = word(ofSlot: index)
      guard !found.isFree, isGone(found.owner) else { continue }
      // Rule of order 30: the loss is noted before the slot is free.
      noteLoss(ofSlot: index, found)
      if unsafe sb_decide(slot(index), found.bits, 0) != 0 { isAny = true }
    }
    for index in 0..<placeExtent {
      let found = word(ofPlace: index)
      guard !found.isFree else { continue }
      let owner = found.claimant ?? owner(ofWaiter: index)
      guard isGone(owner) else { continue }
      if unsafe sb_decide(place(index), found.bits, 0) != 0 { isAny = true }
    }
    noteLosses()
    if isAny {
      settle()
      // One of the dead may have looked after the others.
      ringWatchers()
    }
    return isAny
  }

  /// Frees what owners have that have ended, at most once a second on the whole host.
  package func lookAround() {
    keepBeaconLit()
    if isTurn(.lookedAt, every: SlotWatch.round) { _ = freeTheDead() }
  }

  /// Whether so much time has passed since the instant in a word, which becomes the current one then.
  func isTurn(_ word: HeaderWord, every nanoseconds: Int64) -> Bool {
    let now = sb_coarse_nanoseconds()
    let last = unsafe sb_see(header(word))
    // A time that is ahead is a damaged one.
    let passed = now.subtractingSaturating(Int64(clamping: last))
    guard passed < 0 || passed >= nanoseconds else { return false }
    return unsafe sb_decide(header(word), last, UInt64(bitPattern: now)) != 0
  }

  /// Frees what owners have that have ended, if it is time to look.
  ///
  /// - Parameter isWatched: Whether their ends are noticed without a look.
  /// - Returns: Whether something has changed.
  func lookFromTimeToTime(isWatched: Bool) -> Bool {
    if !isWatched, isTurn(.watchedAt, every: SlotWatch.freshness) {
      // A lock is enough for most of these looks; once a second, all else is looked at.
      let isThorough = isTurn(.lookedAt, every: SlotWatch.round)
      return freeTheDead(believingLocks: !isThorough)
    }
    return isWatched && isTurn(.lookedAt, every: SlotWatch.round) && freeTheDead()
  }

  /// Those who look after all others that wait: the last one to be served, and the last one of another
  /// process.
  ///
  /// The last ones wait for longest. A caller that leaves in its turn is not one of them, so it need not
  /// wake another one in its place.
  var watchers: (last: Caller?, other: Caller?) {
    var (last, other): (Caller?, Caller?)
    for index in 0..<placeExtent {
      let word = word(ofPlace: index)
      guard word.isWaiting, !word.isBrief else { continue }
      let caller = Caller(index: index, word: word)
      let owner = owner(ofWaiter: index)
      guard let found = last else {
        last = caller
        continue
      }
      let isOfSame = self.owner(ofWaiter: found.index) == owner
      if found.word.place < word.place {
        if !isOfSame { other = found }
        last = caller
      } else if !isOfSame, other.map({ $0.word.place < word.place }) ?? true {
        other = caller
      }
    }
    return (last, other)
  }

  /// Whether a caller in one of some places looks after the others.
  func isWatching(_ isOwn: (_ index: Int) -> Bool) -> Bool {
    let watchers = watchers
    return watchers.last.map { isOwn($0.index) } ?? false
      || watchers.other.map { isOwn($0.index) } ?? false
  }

  /// Wakes those who look after the others from now on, because a caller has left that came later.
  func passOnWatch(after left: Caller) {
    let watchers = watchers
    if let last = watchers.last, last.word.place < left.word.place { ring(last.index) }
    if let other = watchers.other, other.word.place < left.word.place { ring(other.index) }
  }

  /// Wakes those who look after the others, but not the one in a place.
  func ringWatchers(but index: Int? = nil) {
    let watchers = watchers
    for watcher in [watchers.last, watchers.other] {
      if let watcher, watcher.index != index { ring(watcher.index) }
    }
  }

  /// Lets the others go on without the first in the queue, if there has been room for it for long and
  /// it did not come; it comes back by itself.
  ///
  /// - Parameters:
  ///   - isRung: Whether somebody has woken the caller that asks, or it has just come.
  ///   - isOwn: Whether a place is that caller's.
  /// - Returns: Whether the caller has to look again soon; nil if something has changed.
  func noteAbsence(isRung: Bool, _ isOwn: (_ index: Int) -> Bool) -> Bool? {
    guard let due else {
      watch.forgetTurn()
      return false
    }
    // Rule of order 33: the first caller may have left and ended before its beacon was seen.
    if isOwn(due.index) { return nil }
    switch watch.turn(of: due.word) {
    case .passed where !isRung: return false
    case .awaited, .passed:
      // Its waker may have been stopped or killed. Whoever was awake a moment ago comes by itself, or is rung
      // when this caller looks again.
      if !isRung || SlotWatch.isLong(since: lastAwake(due)) { ring(due.index) }
      return true
    case .overdue:
      let absent = due.word.noting(isAbsent: true)
      guard unsafe sb_decide(place(due.index), due.word.bits, absent.bits) != 0 else { return nil }
      // It may just not have been rung: then it comes back at once.
      ring(due.index)
      settle()
      return nil
    }
  }
}

internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// Who looks after owners that have died and callers that miss their turn, and how often.
///
/// No process is told when another one dies, so some of them look:
///
/// | who looks | how often |
/// | --- | --- |
/// | a caller that finds no room | at once, but each process at most once a millisecond |
/// | two watchers, which are the last waiter to be served and the last one of another process | every 50 ms |
/// | all other waiters, in case both watchers die or stop | every second, and more seldom if many wait |
/// | a process that makes calls under the limit (`lookAround`) | every second |
///
/// Waiters of all processes take turns: together they look at most once in 40 ms. Such a look believes locks: an
/// owner whose lifeline is held is alive. Once a second one of them looks thoroughly, because an owner that has
/// ended keeps its lifeline if another process has its memory. A look that costs much is followed by a long
/// pause, so that the watchers use no more of a processor than `share`, however many wait and have slots.
final class SlotCare: Sendable {
  private let state = Guarded(State())

  private struct State {
    /// The first in the queue, for whom there was room, and since when.
    var due: (word: PlaceWord, since: Int64)?

    /// When a caller that finds no room may look again.
    var nextLook: Int64 = 0

    /// How long a watcher sleeps between two looks.
    var pause = SlotCare.tick
  }

  /// How often the watchers look.
  static let tick: Int64 = 50_000_000

  /// How often all others look.
  static let second: Int64 = 1_000_000_000

  /// How often all others look together, at most.
  private static let apart: Int64 = 10_000_000

  /// The shortest time between two looks of waiters on the host.
  static let freshness: Int64 = 40_000_000

  /// The shortest time between two thorough looks on the host.
  static let round: Int64 = 1_000_000_000

  /// How long the others wait for one whose turn it is.
  private static let absence: Int64 = 100_000_000

  /// The shortest time between two looks of callers that find no room.
  private static let shortest: Int64 = 1_000_000

  /// One part in so many is how much of its time a process that finds no room looks, and a watcher.
  private static let shareOfCallers: Int64 = 10
  private static let share: Int64 = 500

  /// When a caller looks again for which something has changed.
  ///
  /// Usually its bell has been rung. In damaged memory, something may seem to change each time.
  static var soon: Int64 { Patience.monotonicNanoseconds() + shortest }

  /// How long a watcher sleeps after a look that has cost so much of a processor.
  static func pause(after cost: Int64) -> Int64 { min(max(tick, cost * share), second) }

  /// How long other waiters sleep, if so many wait.
  static func pause(among waiters: Int) -> Int64 { max(second, Int64(waiters) * apart) }

  /// Whether a caller that was awake at an instant of the coarse clock would have come by now.
  static func isLong(since awake: UInt64) -> Bool {
    sb_coarse_nanoseconds().subtractingSaturating(Int64(clamping: awake)) >= absence
  }

  func willFork() { state.willFork() }
  func didFork() { state.didFork() }

  /// Runs the look of a caller that finds no room, unless the last one was a moment ago; false then.
  fileprivate func look(_ body: () -> Bool) -> Bool {
    let start = Patience.monotonicNanoseconds()
    let mayLook = state.withLock { state in
      guard start >= state.nextLook else { return false }
      state.nextLook = start + Self.shortest
      return true
    }
    guard mayLook else { return false }
    let (isAny, cost) = Self.measure(body)
    state.withLock {
      $0.nextLook = start + max(Self.shortest, cost * Self.shareOfCallers)
    }
    return isAny
  }

  /// Runs the look of a waiter.
  fileprivate func watch(_ body: () -> Bool) -> Bool {
    let (isAny, cost) = Self.measure(body)
    state.withLock { $0.pause = Self.pause(after: cost) }
    return isAny
  }

  /// How long a watcher sleeps now.
  fileprivate var pause: Int64 { state.withLock { $0.pause } }

  /// Runs a look and tells how long this thread has worked on it.
  ///
  /// The time that passed tells nothing: on a busy host, most of it goes to other threads.
  private static func measure(_ body: () -> Bool) -> (Bool, Int64) {
    let before = workNanoseconds
    let isAny = body()
    return (isAny, workNanoseconds - before)
  }

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
  /// Frees what the dead have, for a caller that finds no room; false if there is nothing.
  func lookForTheDead() -> Bool {
    care.look { freeTheDead(believingLocks: !isTurn(.lookedAt, every: SlotCare.round)) }
  }

  /// Looks after all who wait, for a caller that waits itself and is awake.
  ///
  /// - Parameters:
  ///   - isRung: Whether another process or thread has woken the caller, or it has just come.
  ///   - isOwn: Whether a place is the caller's.
  /// - Returns: Until when the caller may sleep; nil if something has changed, or if it is the caller's turn.
  func lookAfterAll(isRung: Bool, _ isOwn: (_ index: Int) -> Bool) -> Int64? {
    if isTurn(.watchedAt, every: SlotCare.freshness),
      care.watch({ freeTheDead(believingLocks: !isTurn(.lookedAt, every: SlotCare.round)) })
    {
      return nil
    }
    guard let isOthersTurn = noteAbsence(isRung: isRung, isOwn) else { return nil }
    let now = Patience.monotonicNanoseconds()
    let watchers = watchers
    let isWatching = [watchers.last, watchers.other].contains {
      $0.map { isOwn($0.index) } ?? false
    }
    if isWatching { return now + care.pause }
    return now + (isOthersTurn ? SlotCare.tick : SlotCare.pause(among: watchers.count))
  }

  /// Frees what owners have that have ended; false if there is nothing.
  func freeTheDead(believingLocks: Bool) -> Bool {
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
    if isTurn(.lookedAt, every: SlotCare.round) { _ = freeTheDead(believingLocks: false) }
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

  /// The two waiters that look after all others, the last one to be served and the last one of another process,
  /// and how many wait.
  ///
  /// The last ones wait for longest. A caller that leaves in its turn is not one of them, so it need not
  /// wake another one in its place.
  var watchers: (last: Caller?, other: Caller?, count: Int) {
    var (last, other): (Caller?, Caller?)
    var count = 0
    for index in 0..<placeExtent {
      let word = word(ofPlace: index)
      guard word.isWaiting, !word.isBrief else { continue }
      count += 1
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
    return (last, other, count)
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
      care.forgetTurn()
      return false
    }
    if isOwn(due.index) { return nil }
    switch care.turn(of: due.word) {
    case .passed where !isRung: return false
    case .awaited, .passed:
      // Its waker may have been stopped or killed. Whoever was awake a moment ago comes by itself, or is rung
      // when this caller looks again.
      if !isRung || SlotCare.isLong(since: lastAwake(due)) { ring(due.index) }
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

internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// What one process knows of those who have slots and places in a block, and do not live or do not come.
///
/// Of all callers that wait on the host, two look after the others 20 times a second: the last one to be
/// served, and the last one of another process, in case the process of the former is killed or stopped.
/// All others sleep until they are woken, and look once a second, in case that happens to both.
final class SlotWatch: Sendable {
  private let state = Guarded(State())

  private struct State {
    /// The first in the queue, for whom there was room, and since when.
    var due: (word: PlaceWord, since: Int64)?

    /// When to look for the dead again.
    var nextLook: Int64 = 0
  }

  /// How often the two look, and all others.
  private static let tick: Int64 = 50_000_000
  private static let longestSleep: Int64 = 1_000_000_000

  /// How often at most the host looks for the dead, and how often without believing locks.
  fileprivate static let freshness: Int64 = 40_000_000
  fileprivate static let round: Int64 = 1_000_000_000

  /// How long the others wait for one whose turn it is.
  private static let absence: Int64 = 100_000_000

  /// The shortest time between two looks of callers that find no room.
  private static let shortest: Int64 = 1_000_000

  /// A look takes no more of the time than this share.
  private static let share: Int64 = 10

  /// Until when a caller sleeps at most, on the monotonic clock.
  static func nextLook(isWatching: Bool) -> Int64 {
    Patience.monotonicNanoseconds() + (isWatching ? tick : longestSleep)
  }

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

  /// Whether there has been room for the first in the queue for so long that nobody waits for it.
  fileprivate func isOverdue(_ first: PlaceWord?) -> Bool {
    let now = Patience.monotonicNanoseconds()
    return state.withLock { state in
      guard let first else {
        state.due = nil
        return false
      }
      if let due = state.due, due.word == first { return now - due.since >= Self.absence }
      state.due = (first, now)
      return false
    }
  }
}

extension SlotBlock {
  /// Frees what owners have that have ended, for a caller that finds no room; false if there is nothing.
  func lookForTheDead() -> Bool { watch.look { freeTheDead() } }

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
      let watchers = watchers
      for watcher in [watchers.last, watchers.other] {
        if let watcher { ring(watcher.index) }
      }
    }
    return isAny
  }

  /// Frees what owners have that have ended, at most once a second on the whole host.
  package func lookAround() {
    if isTurn(.lookedAt, every: SlotWatch.round) { _ = freeTheDead() }
  }

  /// Whether so much time has passed since the instant in a word, which becomes the current one then.
  private func isTurn(_ word: HeaderWord, every nanoseconds: Int64) -> Bool {
    let now = sb_coarse_nanoseconds()
    let last = unsafe sb_see(header(word))
    // A time that is ahead is a damaged one.
    let passed = now.subtractingSaturating(Int64(clamping: last))
    guard passed < 0 || passed >= nanoseconds else { return false }
    return unsafe sb_decide(header(word), last, UInt64(bitPattern: now)) != 0
  }

  /// Looks after all who wait, for a caller that is awake and waits itself; false if nothing has changed.
  func lookAfterAll(but index: Int) -> Bool {
    if isTurn(.watchedAt, every: SlotWatch.freshness) {
      // A lock is enough for most of these looks; once a second, all else is looked at.
      let isThorough = isTurn(.lookedAt, every: SlotWatch.round)
      if freeTheDead(believingLocks: !isThorough) { return true }
    }
    return noteAbsence(but: index)
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

  /// Lets the others go on without the first in the queue, if there has been room for it for long and
  /// it did not come; it comes back by itself.
  private func noteAbsence(but index: Int) -> Bool {
    let due = due.flatMap { $0.index == index ? nil : $0 }
    guard watch.isOverdue(due?.word), let due else {
      // Its waker may have been stopped or killed.
      if let due { ring(due.index) }
      return false
    }
    let absent = due.word.noting(isAbsent: true)
    guard unsafe sb_decide(place(due.index), due.word.bits, absent.bits) != 0 else { return false }
    settle()
    return true
  }
}

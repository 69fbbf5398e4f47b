internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// Looking after owners that have died and callers that miss their turn.
///
/// No process is told when another one dies, so some of them look:
///
/// | caller or process | how often it looks |
/// | --- | --- |
/// | a caller that finds no room | at once, but each process at most once a millisecond |
/// | two watchers, which are the last waiter to be served and the last one of another process | every 50 ms |
/// | all other waiters | every second, or together five times if many wait; but only if the watchers have not, because they died or stopped |
/// | a caller that does not wait, and finds a waiter before it though there is room | at once, in turn with the waiters |
/// | a process that makes calls under the limit (`lookAround`) | every second |
/// | a process that comes (`lookOnArrival`) | once, before its first call |
///
/// Waiters of all processes take turns: together they look at most once in 40 ms. Such a look believes locks: an
/// owner whose lifeline is held is alive. Once a second one process of the host looks thoroughly, because an owner
/// that has ended keeps its lifeline if another process has its memory. A look that costs much is followed by a long
/// pause: a second at most, or a minute after a thorough one. So all looks together take less than 0.4 % of a processor
/// as long as a look that believes locks takes less than a millisecond.
final class SlotCare: Sendable {
  private let state = Guarded(State())

  private struct State {
    /// When a caller that finds no room may look again.
    var nextLook: Int64 = 0

    /// How long a watcher sleeps between two looks.
    var pause = SlotCare.tick
  }

  /// How often the watchers look.
  static let tick: Int64 = 50_000_000

  /// How often all others look.
  static let second: Int64 = 1_000_000_000

  /// How often all others look together, if many wait.
  private static let apart: Int64 = 200_000_000

  /// The shortest time between two looks of waiters on the host.
  static let freshness: Int64 = 40_000_000

  /// The shortest time between two thorough looks on the host.
  static let round: Int64 = 1_000_000_000

  /// How far ahead the first in the queue can say that it is awake, as it does while it is held.
  static let longestAhead: Int64 = 900_000_000

  /// How long a caller may take to answer.
  static let absence: Int64 = 100_000_000

  /// How many processes are called at once after one was found stopped.
  static let mostCalled = 64

  /// How long an owner keeps a slot if no process can see whether it has ended.
  static let longestUnseen: Int64 = 86_400_000_000_000

  /// The shortest time between two looks of callers that find no room.
  private static let shortest: Int64 = 1_000_000

  /// One part in so many of its time is how much a process that finds no room looks, and a watcher, of which
  /// there are two.
  private static let shareOfCallers: Int64 = 10
  private static let share: Int64 = 1_000

  /// The longest time between two thorough looks, whatever one costs.
  static let longestRound: Int64 = 60_000_000_000

  /// How long no process looks thoroughly after such a look has cost so much of a processor.
  static func round(after cost: Int64) -> Int64 {
    min(max(round, cost * share), longestRound)
  }

  /// When a caller looks again for which something has changed.
  ///
  /// Usually its bell has been rung. In damaged memory, something may seem to change each time.
  static var soon: Int64 { Patience.monotonicNanoseconds() + shortest }

  /// How long a watcher sleeps after a look that has cost so much of a processor.
  static func pause(after cost: Int64) -> Int64 { min(max(tick, cost * share), second) }

  /// How long another waiter sleeps, if so many wait.
  ///
  /// By chance, because many that have come together would look together.
  static func pause(among waiters: Int) -> Int64 {
    .random(in: second...max(second, 2 * Int64(waiters) * apart))
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

  /// Lets the next caller that finds no room look at once.
  fileprivate func letCallersLook() { state.withLock { $0.nextLook = 0 } }

  /// Runs the look of a waiter.
  fileprivate func watch<Found>(_ body: () -> Found) -> Found {
    let (found, cost) = Self.measure(body)
    state.withLock { $0.pause = Self.pause(after: cost) }
    return found
  }

  /// How long a watcher sleeps now.
  fileprivate var pause: Int64 { state.withLock { $0.pause } }

  /// Runs a look and tells how long this thread has worked on it.
  ///
  /// The time that passed tells nothing: on a busy host, most of it goes to other threads.
  fileprivate static func measure<Found>(_ body: () -> Found) -> (Found, Int64) {
    let before = workNanoseconds
    let found = body()
    return (found, workNanoseconds - before)
  }

  private static var workNanoseconds: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

/// Looking.
extension SlotBlock {
  /// Frees the slots and places of dead owners, for a caller that finds no room; false if there are none.
  func lookForTheDead() -> Bool {
    care.look { lookThoroughly() ?? freeTheDead(believingLocks: true) }
  }

  /// Looks for dead owners and stopped callers, for a caller that waits itself and is awake.
  ///
  /// - Parameter isOwn: Whether a place is the caller's.
  /// - Returns: Until when the caller may sleep; nil if something has changed.
  func lookAfterAll(_ isOwn: (_ index: Int) -> Bool) -> Int64? {
    let watchers = watchers
    let isWatching = [watchers.last, watchers.other].contains {
      $0.map { isOwn($0.index) } ?? false
    }
    let found = lookInTurn(after: isWatching ? SlotCare.freshness : SlotCare.second)
    if found == .changed { return nil }
    // A caller that has called another one sees whether it answers.
    let pause =
      isWatching
      ? care.pause : found == .called ? SlotCare.tick : SlotCare.pause(among: watchers.count)
    return Patience.monotonicNanoseconds() + pause
  }

  /// Looks for dead owners and stopped callers, unless another caller has done so within a time.
  func lookInTurn(after time: Int64 = SlotCare.freshness) -> Look {
    guard isTurn(.watchedAt, every: time) else { return .quiet }
    let thorough = lookThoroughly()
    return care.watch {
      let isFreed = thorough ?? freeTheDead(believingLocks: true)
      let found = passTheStopped()
      return isFreed ? .changed : found
    }
  }

  /// The result of a look.
  enum Look {
    /// There was nothing to do, or it was not the time to look.
    case quiet

    /// The first in the queue was called, and has yet to answer.
    case called

    /// Something was freed, or callers were passed.
    case changed
  }

  /// Frees the slots and places of dead owners, whatever locks say; nil if a process of the host has done so lately.
  ///
  /// The kernel is asked for each owner, so with many of them it is done less often than once a second.
  private func lookThoroughly() -> Bool? {
    guard isTurn(.lookedAt, every: SlotCare.round, ahead: SlotCare.longestRound) else { return nil }
    let (isAny, cost) = SlotCare.measure { freeTheDead(believingLocks: false) }
    let next = sb_coarse_nanoseconds() + SlotCare.round(after: cost) - SlotCare.round
    unsafe sb_set(header(.lookedAt), UInt64(bitPattern: next))
    return isAny
  }

  /// Frees the slots and places of dead owners; false if there are none.
  func freeTheDead(believingLocks: Bool, at now: Int64 = sb_coarse_nanoseconds()) -> Bool {
    let isGone = owners.judgement(believingLocks: believingLocks)
    var isAny = false
    for index in 0..<slotExtent {
      let found = word(ofSlot: index)
      guard !found.isFree else { continue }
      if isGone(found.owner) {
        // Rule of order 30: the loss is noted before the slot is free.
        noteLoss(ofSlot: index, found)
      } else if !isOverdue(index, found, at: now) {
        continue
      }
      if unsafe sb_decide(slot(index), found.bits, 0) != 0 { isAny = true }
    }
    for index in 0..<placeExtent {
      let found = word(ofPlace: index)
      guard !found.isFree else { continue }
      let owner = found.taker ?? owner(ofWaiter: index)
      guard isGone(owner) else { continue }
      if unsafe sb_decide(place(index), found.bits, 0) != 0 { isAny = true }
    }
    noteLosses()
    if isAny {
      settle()
      // One of the dead may have been a watcher.
      ringWatchers()
    }
    return isAny
  }

  /// Whether a slot was taken so long ago that its owner loses it, because its end cannot be seen from here.
  ///
  /// Such an owner is in another PID namespace, and has no lifeline, because the file system keeps none.
  private func isOverdue(_ index: Int, _ found: SlotWord, at now: Int64) -> Bool {
    SlotBound.age(since: unsafe sb_see(line(index, .since)), at: now) >= SlotCare.longestUnseen
      && owners.isOutOfSight(found.owner)
  }

  /// Frees the slots and places of dead owners, at most once a second on the whole host.
  package func lookAround() { _ = lookThoroughly() }

  /// Frees the slots and places of owners that ended before this process came.
  ///
  /// Another process may have looked a moment ago, and another owner may have ended since.
  package func lookOnArrival() {
    guard !hasLookedOnArrival.load(ordering: .relaxed),
      !hasLookedOnArrival.exchange(true, ordering: .relaxed),
      (0..<slotExtent).contains(where: { !word(ofSlot: $0).isFree })
    else { return }
    _ = lookThoroughly() ?? freeTheDead(believingLocks: true)
  }

  /// Lets the next look be due at once, of a caller, a waiter or a process, because the judge knows of new deaths.
  func letDeathsBeSeen() {
    care.letCallersLook()
    unsafe sb_tell(header(.watchedAt), 0)
    unsafe sb_tell(header(.lookedAt), 0)
    ringWatchers()
  }

  /// Whether so much time has passed since the instant in a word, which becomes the current one then.
  ///
  /// An instant that is further ahead than a process can have put it is damaged, and has passed.
  func isTurn(_ word: HeaderWord, every nanoseconds: Int64, ahead: Int64 = 0) -> Bool {
    let now = sb_coarse_nanoseconds()
    let last = unsafe sb_see(header(word))
    let passed = now.subtractingSaturating(Int64(clamping: last))
    guard passed < -ahead || passed >= nanoseconds else { return false }
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

  /// Wakes the watchers of now on, because a caller has left that came later.
  func passOnWatch(after left: Caller) {
    let watchers = watchers
    if let last = watchers.last, last.word.place < left.word.place { ring(last.index) }
    if let other = watchers.other, other.word.place < left.word.place { ring(other.index) }
  }

  /// Wakes the watchers, except the one in a place.
  func ringWatchers(but index: Int? = nil) {
    let watchers = watchers
    for watcher in [watchers.last, watchers.other] {
      if let watcher, watcher.index != index { ring(watcher.index) }
    }
  }
}

/// Callers that miss their turn, because their process is stopped or frozen.
extension SlotBlock {
  /// Passes callers at the head of the queue that are stopped, so that the others go on.
  ///
  /// The first caller is called if there is room for it, so that it comes, and once a second if there is room but
  /// not enough for it. A caller that is awake answers (`isPresent`). One that does not answer is stopped. All of
  /// its process is passed with it, and the next callers are called together, so that many that are stopped take
  /// no longer than two. A caller that was passed comes back to its place by itself.
  func passTheStopped() -> Look {
    guard let first, let limit = gate.limit else { return .quiet }
    let usage = usage
    let needsNoSlot = claim(of: first).needsNoRoom || isBoundByRateOnly
    guard needsNoSlot || usage.total < limit.units else { return .quiet }
    let now = UInt64(bitPattern: sb_coarse_nanoseconds())
    if unanswered(first.index, at: now).map({ isLong(since: $0, now) }) == true {
      return passAll(at: now) ? .changed : .quiet
    }
    let isDue = needsNoSlot || limit.hasRoom(for: claim(of: first), beside: usage)
    if isAwakeAhead(first.index, at: now) || isAsleepUntilTurn(first.index) { return .quiet }
    let awake = lastAwake(first.index, at: now)
    guard isDue || now - awake >= UInt64(SlotCare.second) else { return .quiet }
    call(first.index, at: now)
    return .called
  }

  /// Passes all callers that have not answered for long, and calls the next ones; false if there are none to pass.
  private func passAll(at now: UInt64) -> Bool {
    let callers = (0..<placeExtent)
      .map { Caller(index: $0, word: word(ofPlace: $0)) }
      .filter { $0.word.isWaiting }
    var silent: [UInt64: UInt64] = [:]
    for caller in callers {
      guard let called = unanswered(caller.index, at: now), isLong(since: called, now) else {
        continue
      }
      let owner = owner(ofWaiter: caller.index)
      silent[owner] = min(called, silent[owner] ?? .max)
    }
    // A process one of whose callers was awake since is not stopped as a whole.
    for caller in callers {
      let owner = owner(ofWaiter: caller.index)
      guard let called = silent[owner] else { continue }
      if lastAwake(caller.index, at: now) >= called { silent[owner] = .max }
    }
    var isAny = false
    var next: [Caller] = []
    for caller in callers {
      let called = silent[owner(ofWaiter: caller.index)]
      let isSilent = unanswered(caller.index, at: now).map { isLong(since: $0, now) } ?? false
      guard isSilent || (called ?? .max) != .max else {
        next.append(caller)
        continue
      }
      let absent = caller.word.noting(isAbsent: true)
      guard unsafe sb_decide(place(caller.index), caller.word.bits, absent.bits) != 0 else {
        continue
      }
      isAny = true
      // It may be late only: then it comes back at once.
      ring(caller.index)
    }
    guard isAny else { return false }
    callEach(next, at: now)
    settle()
    return true
  }

  /// Calls the first caller of each process.
  private func callEach(_ callers: [Caller], at now: UInt64) {
    var called: Set<UInt64> = []
    for caller in callers.sorted(by: { $0.word.place < $1.word.place }) {
      guard called.insert(owner(ofWaiter: caller.index)).inserted else { continue }
      call(caller.index, at: now)
      if called.count == SlotCare.mostCalled { return }
    }
  }

  /// Asks a caller to show that it is awake.
  private func call(_ index: Int, at now: UInt64) {
    // An earlier call that it has not answered goes on.
    if unanswered(index, at: now) == nil { unsafe sb_set(waiter(index, .called), now) }
    ring(index)
  }

  /// Since when a caller owes an answer; nil if it owes none.
  private func unanswered(_ index: Int, at now: UInt64) -> UInt64? {
    let called = unsafe sb_load(waiter(index, .called))
    // A time that is ahead is a damaged one.
    return called != 0 && called <= now ? called : nil
  }

  /// Whether a caller has said that it does not begin yet.
  private func isAwakeAhead(_ index: Int, at now: UInt64) -> Bool {
    let awake = unsafe sb_load(waiter(index, .awake))
    return awake > now && awake <= now &+ UInt64(SlotCare.longestAhead)
  }

  /// When a caller was last awake; 0 if the word is damaged.
  private func lastAwake(_ index: Int, at now: UInt64) -> UInt64 {
    let awake = unsafe sb_load(waiter(index, .awake))
    // Another processor may be a little ahead.
    guard awake < now &+ UInt64(SlotCare.second) else { return 0 }
    return min(awake, now)
  }

  private func isLong(since called: UInt64, _ now: UInt64) -> Bool {
    now - called >= UInt64(SlotCare.absence)
  }
}

package import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// Calls that were under way when their process ended.
package struct LostCalls: Sendable, Hashable {
  /// The process; nil if it is not known.
  package let process: ProcessIdentity?
  package let calls: Int
}

/// What one process knows of those who have slots and places in a block, and do not live or do not come.
///
/// Of all threads that wait in this process, one looks after them 20 times a second; the others sleep
/// until they are woken. No process relies on another one for this.
final class SlotWatch: Sendable {
  /// Which place's caller looks, and in which fork of the process; 0 if nobody does.
  private let watcher = Atomic<UInt64>(0)
  private let state = Guarded(State())

  private struct State {
    /// The first in the queue, for whom there was room, and since when.
    var due: (word: PlaceWord, since: Int64)?

    /// When to look for the dead again.
    var nextLook: Int64 = 0

    /// The lost calls that this process has found, and in which fork: its parent records its own.
    var lost: [LostCalls] = []
    var forkDepth = ForkGuard.depth
  }

  /// How often the one who looks does so.
  private static let tick: Int64 = 50_000_000

  /// How long the others wait for one whose turn it is.
  private static let absence: Int64 = 100_000_000

  /// The shortest time between two looks of callers that find no room.
  private static let shortest: Int64 = 1_000_000

  /// A look takes no more of the time than this share.
  private static let share: Int64 = 10

  static var nextTick: Int64 { Patience.monotonicNanoseconds() + tick }

  func willFork() { state.willFork() }
  func didFork() { state.didFork() }

  /// Whether the caller in a place is the one to look, which it becomes if nobody is.
  func begin(_ index: Int) -> Bool {
    let own = Self.mark(index)
    let found = watcher.load(ordering: .sequentiallyConsistent)
    if found == own { return true }
    // The child of a fork has none of its parent's threads.
    guard !Self.isOfThisFork(found) else { return false }
    return watcher.compareExchange(
      expected: found, desired: own, ordering: .sequentiallyConsistent
    ).exchanged
  }

  /// The caller in a place looks no longer.
  func end(_ index: Int) {
    _ = watcher.compareExchange(
      expected: Self.mark(index), desired: 0, ordering: .sequentiallyConsistent)
  }

  /// Whether somebody looks.
  var isKept: Bool { Self.isOfThisFork(watcher.load(ordering: .sequentiallyConsistent)) }

  private static func mark(_ index: Int) -> UInt64 {
    (ForkGuard.depth + 1) << 16 | UInt64(index)
  }

  private static func isOfThisFork(_ mark: UInt64) -> Bool { mark >> 16 == ForkGuard.depth + 1 }

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

  fileprivate func add(_ lost: [LostCalls]) {
    state.withLock { state in state.lost = Self.own(&state) + lost }
  }

  fileprivate var hasLost: Bool { state.withLock { !Self.own(&$0).isEmpty } }

  fileprivate func takeLost() -> [LostCalls] {
    state.withLock { state in
      defer { state.lost = [] }
      return Self.own(&state)
    }
  }

  /// What this process has found itself, rather than the one that it was forked from.
  private static func own(_ state: inout State) -> [LostCalls] {
    if state.forkDepth != ForkGuard.depth { (state.lost, state.forkDepth) = ([], ForkGuard.depth) }
    return state.lost
  }
}

extension SlotBlock {
  /// Frees what owners have that have ended; false if there is nothing.
  func lookForTheDead() -> Bool {
    watch.look {
      var dead: [UInt64: Bool] = [:]
      func isGone(_ owner: UInt64) -> Bool {
        if let known = dead[owner] { return known }
        let isGone = owners.isGone(owner)
        dead[owner] = isGone
        return isGone
      }
      var calls: [UInt64: Int] = [:]
      var isAny = false
      for index in 0..<slotExtent {
        let found = word(ofSlot: index)
        guard !found.isFree, isGone(found.owner) else { continue }
        // The first slot of a call has its units. Whoever frees it counts the call, so it counts once.
        let isFirst = unsafe sb_load(line(index, .units)) > 0
        guard unsafe sb_decide(slot(index), found.bits, 0) != 0 else { continue }
        isAny = true
        if isFirst { calls[found.owner, default: 0] += 1 }
      }
      for index in 0..<placeExtent {
        let found = word(ofPlace: index)
        guard !found.isFree else { continue }
        let owner = found.claimant ?? owner(ofWaiter: index)
        guard isGone(owner) else { continue }
        if unsafe sb_decide(place(index), found.bits, 0) != 0 { isAny = true }
      }
      let lost = calls.filter { owners.hasLostCalls($0.key) }
      if !lost.isEmpty {
        watch.add(lost.map { LostCalls(process: owners.process($0.key), calls: $0.value) })
      }
      if isAny { settle() }
      return isAny
    }
  }

  /// Frees what owners have that have ended, at most once a second on the whole host.
  package func lookAround() {
    let now = sb_coarse_nanoseconds()
    let last = unsafe sb_see(header(.lookedAt))
    // A time that is ahead is a damaged one.
    let passed = now.subtractingSaturating(Int64(clamping: last))
    guard passed < 0 || passed >= Self.round,
      unsafe sb_decide(header(.lookedAt), last, UInt64(bitPattern: now)) != 0
    else { return }
    _ = lookForTheDead()
  }

  private static let round: Int64 = 1_000_000_000

  /// Lets the others go on without the first in the queue, if there has been room for it for long and
  /// it did not come; it comes back by itself.
  func noteAbsence(but index: Int) -> Bool {
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

  package var hasFoundLostCalls: Bool { watch.hasLost }

  /// The calls that this process has found lost since it was last asked.
  package func takeLostCalls() -> [LostCalls] { watch.takeLost() }
}

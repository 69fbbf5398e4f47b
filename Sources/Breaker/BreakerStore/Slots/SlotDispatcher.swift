package import BreakerCore
internal import CHost
internal import Synchronization

/// The callers of this process that wait for their turn without a thread of their own.
///
/// One thread waits for all of them, however many they are. It sleeps at the bell of the process, which is
/// rung in place of the bells of these callers. It is started when the first of them comes, and ends after
/// the last.
///
/// Unchecked because the compiler does not know that the lock guards the rest.
final class SlotDispatcher: @unchecked Sendable {
  private let lock = Lock()
  private var waiting: [SlotWaiter] = []
  private var isRunning = false

  /// The fork in which the thread runs: the child of a fork has none of its parent's threads, and none of
  /// its callers.
  private var forkDepth = ForkGuard.depth

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  /// Lets a caller wait that has its place; `answer` is called once, from any thread.
  ///
  /// - Returns: False, and the caller does not wait, if the system has no thread left.
  func add(_ waiter: SlotWaiter, _ owners: SlotOwners) -> Bool {
    let isTaken = lock.withLock {
      if forkDepth != ForkGuard.depth {
        (waiting, isRunning, forkDepth) = ([], false, ForkGuard.depth)
      }
      guard !waiter.isOver else { return true }
      waiting.append(waiter)
      if isRunning { return true }
      isRunning = SystemThread.startDetached("breaker-queue") { [self, owners] in
        HelperGate.inside { run(owners) }
      }
      if !isRunning { waiting.removeLast() }
      return isRunning
    }
    // Its turn may have come before the thread waited for it.
    if isTaken { owners.ringOwn() }
    return isTaken
  }

  /// Ends a wait, unless it is over; the caller learns it at once.
  func end(_ waiter: SlotWaiter, with entry: SlotEntry) {
    let (isFirst, isLast) = lock.withLock {
      if let index = waiting.firstIndex(where: { $0 === waiter }) { waiting.remove(at: index) }
      defer { waiter.isOver = true }
      return (!waiter.isOver, waiting.isEmpty)
    }
    // The thread ends after the last one, for which it may sleep.
    if isLast { waiter.block.owners.ringOwn() }
    guard isFirst else {
      // It was cancelled while it got its turn.
      if case .begun(let held) = entry { waiter.block.end(held) }
      return
    }
    waiter.end(with: entry)
  }

  private func run(_ owners: SlotOwners) {
    var isRung = true
    var last: UInt32 = 0
    let home = owners.ownIndex
    var watched = Watched()
    while true {
      let heard = owners.ownBell
      let now = lock.withLock { () -> [SlotWaiter] in
        if waiting.isEmpty { isRunning = false }
        return waiting
      }
      guard !now.isEmpty else { return }
      let isCalled = isRung || heard != last
      if isCalled || !watched.look() { watched = attend(now) }
      last = heard
      // If the table was damaged, other processes may ring a bell at which this one no longer listens.
      let nextLook = watched.nextLook
      let end = owners.ownIndex == home ? nextLook : min(nextLook, Watched.nextSecond)
      HelperGate.outside { isRung = owners.sleep(heard, until: end) }
    }
  }

  /// Lets the callers begin whose turn it is; returns the callers that wait on, and when to look after them.
  private func attend(_ waiters: [SlotWaiter]) -> Watched {
    var watched = Watched()
    let byBlock = Dictionary(grouping: waiters) { ObjectIdentifier($0.block) }
    for waiters in byBlock.values {
      guard let block = waiters.first?.block else { continue }
      var left = Dictionary(waiters.map { ($0.caller.index, $0) }, uniquingKeysWith: { $1 })
      for waiter in waiters where !block.isPresent(waiter.caller) {
        end(waiter, with: .busy)
        left[waiter.caller.index] = nil
      }
      while let due = block.due, let waiter = left[due.index], waiter.caller.word == due.word {
        left[due.index] = nil
        if let refusal = waiter.wait.refusal {
          end(waiter, with: refusal)
          continue
        }
        let later = waiter.wait.heldUntil()
        guard later == nil, let entry = block.takeWithCare(waiter.claim, waiter.owner) else {
          block.noteHeld(waiter.caller, until: later, waiter.wait)
          if let later { watched.end = min(watched.end, later) }
          left[due.index] = waiter
          break
        }
        end(waiter, with: entry)
      }
      for waiter in left.values {
        let canMakeIt = block.canMakeIt(
          waiter.caller, by: waiter.wait.until, since: &waiter.planned)
        guard let refusal = canMakeIt ? waiter.wait.refusal : .busy else { continue }
        if refusal == .unwanted { block.ringNext(after: waiter.caller) }
        end(waiter, with: refusal)
        left[waiter.caller.index] = nil
      }
      if block.rampAllowance != nil, let first = block.first, let waiter = left[first.index],
        let end = waiter.wait.rampUntil()
      {
        watched.end = min(watched.end, end)
      }
      if block.isRated,
        let first = left.values.min(by: { $0.caller.word.place < $1.caller.word.place }),
        let turn = block.planTurn(of: first.caller)
      {
        watched.end = min(watched.end, turn)
      }
      for waiter in left.values { watched.end = min(watched.end, waiter.wait.until) }
      guard !left.isEmpty else { continue }
      watched.add(block, Set(left.keys))
    }
    return watched
  }

  /// The callers that wait on after they were attended to.
  ///
  /// As long as the bell is not rung, it is enough to look after them from time to time, which costs little, however
  /// many wait here.
  private struct Watched {
    private var blocks: [(block: SlotBlock, own: Set<Int>, nextLook: Int64)] = []

    /// When to attend to all of them again.
    var end = Watched.nextSecond

    static var nextSecond: Int64 { Patience.monotonicNanoseconds() + SlotCare.second }

    mutating func add(_ block: SlotBlock, _ own: Set<Int>) {
      let nextLook = block.lookAfterAll { own.contains($0) }
      blocks.append((block, own, nextLook ?? SlotCare.soon))
    }

    var nextLook: Int64 { blocks.reduce(end) { min($0, $1.nextLook) } }

    /// Looks after the others where it is time; false if the callers have to be attended to.
    mutating func look() -> Bool {
      let now = Patience.monotonicNanoseconds()
      guard now < end else { return false }
      for index in blocks.indices where blocks[index].nextLook <= now {
        let own = blocks[index].own
        guard let nextLook = blocks[index].block.lookAfterAll({ own.contains($0) })
        else { return false }
        blocks[index].nextLook = nextLook
      }
      return true
    }
  }
}

/// A caller that waits for its turn without a thread.
///
/// Unchecked because the compiler does not know that the dispatcher's lock guards what changes.
final class SlotWaiter: @unchecked Sendable {
  let block: SlotBlock
  let caller: SlotBlock.Caller
  let claim: CallClaim
  let owner: UInt64
  let wait: SlotWait
  fileprivate var isOver = false

  /// The rate by which it has its turn.
  fileprivate var planned: RateWord
  private let start = Patience.monotonicNanoseconds()
  private let answer: @Sendable (SlotEntry) -> Void

  init(
    _ block: SlotBlock, _ caller: SlotBlock.Caller, _ claim: CallClaim, _ owner: UInt64,
    _ wait: SlotWait, since planned: RateWord, _ answer: @escaping @Sendable (SlotEntry) -> Void
  ) {
    self.block = block
    self.planned = planned
    self.caller = caller
    self.claim = claim
    self.owner = owner
    self.wait = wait
    self.answer = answer
  }

  fileprivate func end(with entry: SlotEntry) {
    block.leave(caller)
    block.noteWait(Patience.monotonicNanoseconds() - start, hasBegun: entry.hasBegun)
    answer(entry)
  }
}

extension SlotBlock {
  /// Queues a call without blocking a thread.
  ///
  /// - Parameters:
  ///   - claim: How much the call takes, and its priority.
  ///   - terms: The limit that the caller knows.
  ///   - wait: How long the caller waits for its turn.
  ///   - answer: Called once with the answer, from any thread, unless no wait was needed.
  /// - Returns: The answer if no wait was needed, or how the caller gives up.
  package func queue(
    _ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait,
    _ answer: @escaping @Sendable (SlotEntry) -> Void
  ) -> QueuedCall {
    let isHeld = wait.isHeld
    if !isHeld, let held = take(claim, terms) { return .answered(.begun(held)) }
    let own: UInt64
    switch prepare(claim, terms, looks: false, isHeld: isHeld) {
    case .entry(let entry): return .answered(entry)
    case .owner(let number): own = number
    }
    let found = arrive(
      claim, own, isBrief: false, ringing: owners.ownIndex, as: wait.standing)
    guard let caller = found else { return .answered(.busy) }
    let planned = rate
    guard hasPlace(for: caller, among: terms.places), canMakeIt(caller, by: wait.until) else {
      leave(caller)
      return .answered(.busy)
    }
    let waiter = SlotWaiter(self, caller, claim, own, wait, since: planned, answer)
    let dispatcher = owners.dispatcher
    guard dispatcher.add(waiter, owners) else {
      leave(caller)
      return .answered(.busy)
    }
    return .waiting { dispatcher.end(waiter, with: .busy) }
  }
}

/// The answer to a call that may wait without a thread.
package enum QueuedCall: Sendable {
  case answered(SlotEntry)

  /// It waits. The function gives its place up, and then it is told that there is no room.
  case waiting(giveUp: @Sendable () -> Void)
}

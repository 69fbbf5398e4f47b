internal import BreakerCore
internal import Glibc

/// A step that one thread has queued, to be committed by that thread or another one.
final class QueuedStep {
  let name: String
  let orCreate: Bool

  /// Nil once the step is over, because the closure must not outlive its caller.
  private(set) var body: ((inout BreakerDraft) -> Void)?

  /// The result; nil if there was no such breaker, or if the transaction failed.
  var result: StepResult?
  var error: StoreError?

  fileprivate var state = State.new
  fileprivate let waker = ThreadWaker()

  fileprivate enum State { case new, waiting, taken, done }

  init(_ name: String, orCreate: Bool, _ body: @escaping (inout BreakerDraft) -> Void) {
    self.name = name
    self.orCreate = orCreate
    self.body = body
  }

  /// Takes the step in a transaction; it may have run in one that was rolled back.
  func take(in group: inout StepGroup) throws(StoreError) {
    result = nil
    error = nil
    guard let body else { return }
    switch try group.take(name, orCreate: orCreate, body) {
    case .absent: break
    case .refused(let refusal): error = refusal
    case .taken(let row, let events):
      result = StepResult(row: row, breaker: group.rows[row].breaker, events: events)
    }
  }

  /// After the commit: shows the breakers as they stand now.
  func hasCommitted(in group: StepGroup, _ fingerprints: Fingerprints?) {
    guard let row = result?.row else { return }
    result?.breaker = group.rows[row].breaker
    result?.fingerprints = fingerprints
    result?.others = group.breakers(besides: row)
  }

  func end(_ error: StoreError? = nil) {
    if let error {
      result = nil
      self.error = error
    }
    body = nil
  }
}

/// Lets threads share transactions: one of them commits the steps of all.
///
/// The first thread to arrive leads and commits for everyone. Threads that arrive meanwhile join
/// the next transaction. The thread that leads it takes every waiting step, so turns are never handed
/// over.
///
/// Unchecked because the compiler does not know that the lock guards the queue and the states of
/// its steps. `Guarded` cannot hold them, because threads sleep on the lock while they change.
final class StepQueue: @unchecked Sendable {
  private let lock = Lock()
  private var waiting: [QueuedStep] = []
  private var isLed = false
  private var forkDepth: UInt64 = 0

  /// Whether the latest transaction had steps of other threads.
  private var hadCompany = false

  /// How many steps are waiting.
  var waitingCount: Int { lock.withLock { waiting.count } }

  enum Turn { case leads, isDone, isLate }

  /// Waits until another thread has committed the step, or until it is this thread's turn to lead.
  ///
  /// If no transaction has taken the step by the deadline, which is on the monotonic clock, the step
  /// is late and will never be taken.
  func enter(_ step: QueuedStep, until deadline: Int64) -> Turn {
    lock.withLock {
      if !isLed { return lead(step) }
      step.state = .waiting
      waiting.append(step)
      while true {
        if step.state == .done { return .isDone }
        if step.state == .waiting, !isLed { return lead(step) }
        // Once taken, it waits for the result; the transaction has a deadline of its own.
        let isInTime = step.waker.wait(
          lock, until: step.state == .taken ? nil : Patience.nextQuestion(before: deadline))
        if !isInTime, step.state == .waiting, Patience.isOver(at: deadline) {
          if !isLed { return lead(step) }
          waiting.removeAll { $0 === step }
          return .isLate
        }
      }
    }
  }

  private func lead(_ step: QueuedStep) -> Turn {
    waiting.removeAll { $0 === step }
    isLed = true
    return .leads
  }

  /// Yields, so that threads served last time can queue their next step; for the leader.
  ///
  /// They are awake by now, but each needs a processor to get here.
  func gather() {
    if lock.withLock({ hadCompany && waiting.isEmpty }) { sched_yield() }
  }

  /// Takes all waiting steps; `finish` or `leave` wakes their threads.
  func take() -> [QueuedStep] {
    lock.withLock {
      hadCompany = !waiting.isEmpty
      if waiting.isEmpty { return [] }
      let taken = waiting
      waiting = []
      for step in taken { step.state = .taken }
      return taken
    }
  }

  /// Wakes the threads of steps that are over.
  func finish(_ steps: [QueuedStep]) {
    if steps.isEmpty { return }
    lock.withLock { for step in steps { step.state = .done } }
    // After the lock is released, because each thread needs it as it wakes up.
    for step in steps { step.waker.wake() }
  }

  /// Ends the lead, and wakes the threads of steps that are over.
  func leave(finishing steps: [QueuedStep]) {
    let next = lock.withLock {
      for step in steps { step.state = .done }
      isLed = false
      return waiting.first
    }
    for step in steps { step.waker.wake() }
    // It leads now, or another thread has taken the lead and commits its step.
    next?.waker.wake()
  }

  func willFork() {
    lock.lock()
    forkDepth = ForkGuard.depth
  }

  func didFork() {
    if ForkGuard.depth != forkDepth {
      // The child has only the thread that forked; the queued threads are gone.
      waiting = []
      isLed = false
    }
    lock.unlock()
  }
}

/// The result of a step, once its transaction is over.
struct StepResult {
  /// The index of its breaker among those of the transaction.
  fileprivate let row: Int

  /// The breaker as the transaction leaves it, which a later step may have changed again.
  var breaker: StoredBreaker
  var events: [BreakerEvent]
  var syncError: StoreError?
  var fingerprints: Fingerprints?

  /// The other breakers of the transaction.
  var others: [StoredBreaker] = []
}

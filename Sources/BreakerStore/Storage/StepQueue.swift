internal import BreakerCore
internal import Glibc

/// A step of one thread, which that thread or another one brings into a transaction.
final class QueuedStep {
  let name: String
  let orCreate: Bool

  /// Taken away when the step is over, because it must not outlive the call that it came with.
  private(set) var body: ((inout BreakerDraft) -> Void)?

  /// What has become of it; nil if there was no such breaker, or the transaction has failed.
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

  /// Takes the step in a transaction, after an earlier one may have been rolled back.
  func take(in group: inout StepGroup<WriteTransaction>) throws(StoreError) {
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
  func hasCommitted(in group: StepGroup<WriteTransaction>, _ fingerprints: Fingerprints?) {
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

/// Where threads with a step to be committed meet: one of them commits for all.
///
/// The first thread to arrive leads and commits for everyone. Threads that arrive meanwhile join
/// the next transaction. Whichever thread leads it takes every waiting step, so no turn is handed
/// over.
///
/// Unchecked because the compiler does not know that the lock guards the queue and the states of
/// its steps. `Guarded` cannot hold them, because threads sleep on the lock while they change.
final class StepQueue: @unchecked Sendable {
  private let lock = Lock()
  private var waiting: [QueuedStep] = []
  private var isLed = false
  private var forkDepth: UInt64 = 0

  /// Whether the latest transaction took others along.
  private var hadCompany = false

  /// How many steps wait to be taken along.
  var waitingCount: Int { lock.withLock { waiting.count } }

  enum Turn { case leads, isDone, isLate }

  /// Waits until the step is done by another thread, or its own thread is to do it.
  ///
  /// A step that has waited until an instant of the monotonic clock, and is in no transaction yet,
  /// is late and will not be done.
  func enter(_ step: QueuedStep, until deadline: Int64) -> Turn {
    lock.withLock {
      if !isLed { return lead(step) }
      step.state = .waiting
      waiting.append(step)
      while true {
        if step.state == .done { return .isDone }
        if step.state == .waiting, !isLed { return lead(step) }
        // A transaction is bounded itself, and its result must not be missed.
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

  /// Lets those come who were taken along the last time; under the lead.
  ///
  /// They are awake by now, but need a processor to get here with their next steps.
  func gather() {
    if lock.withLock({ hadCompany && waiting.isEmpty }) { sched_yield() }
  }

  /// Everyone who waits; they will be told of the end of their steps.
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

  /// Tells the threads of steps that are over.
  func finish(_ steps: [QueuedStep]) {
    if steps.isEmpty { return }
    lock.withLock { for step in steps { step.state = .done } }
    // Without the lock, which each of them needs as it wakes up.
    for step in steps { step.waker.wake() }
  }

  /// Ends the lead, and tells the threads of steps that are over.
  func leave(finishing steps: [QueuedStep]) {
    let next = lock.withLock {
      for step in steps { step.state = .done }
      isLed = false
      return waiting.first
    }
    for step in steps { step.waker.wake() }
    // It will find either that it leads, or that somebody has come to lead who takes it along.
    next?.waker.wake()
  }

  func willFork() {
    lock.lock()
    forkDepth = ForkGuard.depth
  }

  func didFork() {
    if ForkGuard.depth != forkDepth {
      // Of the threads that were here only one is left, and it was forking.
      waiting = []
      isLed = false
    }
    lock.unlock()
  }
}

/// What a step has come to, when its transaction is over.
struct StepResult {
  /// Where its breaker is among those of the transaction.
  fileprivate let row: Int

  /// The breaker as the transaction leaves it, which a later step may have changed again.
  var breaker: StoredBreaker
  var events: [BreakerEvent]
  var syncError: StoreError?
  var fingerprints: Fingerprints?

  /// The other breakers of the transaction.
  var others: [StoredBreaker] = []
}

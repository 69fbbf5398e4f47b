internal import BreakerCore
internal import BreakerStore
public import CHost
public import Synchronization

/// Keeps what this process knows of its breakers as current as the store, and goes on without it.
///
/// A fingerprint of the store vouches for what is known: while it is unchanged, nothing has to be read.
/// Everything that can change is in one `EngineState`, and `update` is the only way to change it: it
/// takes the lock, lets the state take its step, publishes what healthy calls read, releases the lock,
/// and then tells the observer. `Engine+Admission` decides whether calls may be made,
/// `Engine+Reporting` takes their outcomes, `Engine+Store` reads and writes the store for both, and
/// `Engine+Rounds` writes what is left once a second.
///
/// `RulesOfOrder.md`, beside the modules of this ring, lists what has to come before what; comments refer to its
/// rules by number.
@usableFromInline @safe final class Engine: Sendable {
  let storage: any BreakerStorage

  /// Takes the store's place while this process goes on alone.
  let local: MemoryStorage
  let options: StoreOptions
  let program: String
  let mandate: HistoryAuthor.Mandate
  let examinations = ForkGate()

  /// One load from here tells whether the store has changed; the pointer never changes.
  @usableFromInline nonisolated(unsafe) let fingerprint: UnsafePointer<UInt64>
  @usableFromInline let isSystemClock: Bool

  // Healthy calls read these. A step of the state publishes the first three.

  @usableFromInline let vouched = Atomic<UInt64>(0)
  private let isUnavailable = Atomic<Bool>(false)
  private let areSomeAlone = Atomic<Bool>(false)

  /// The second in which the last round was done; no second before the first.
  @usableFromInline let secondOfRound = Atomic<Int64>(.min)

  /// When the next round is due at the latest, for calls that have read the boot clock anyway.
  let nextRoundOnBootClock = Atomic<Int64>(0)

  /// Whether the store is being closed for good, so that no caller waits for room any more.
  let isEnding = Atomic<Bool>(false)

  /// When callers that wait for room look again whether their file is still in use, on the boot clock.
  let nextLookAtSlots = Atomic<Int64>(0)

  let refreshes = Refreshes()
  private let state = Guarded(EngineState())
  private let owner = Guarded<(forkDepth: UInt64, process: ProcessIdentity)?>(nil)

  /// Set once, by the initializer, which has to give it this engine.
  private nonisolated(unsafe) var forkGuard: ForkGuard?

  init(storage: any BreakerStorage, options: StoreOptions, program: String) {
    self.storage = storage
    unsafe fingerprint = storage.fingerprint
    isSystemClock = options.clock.isSystem
    self.options = options
    self.program = program
    mandate = options.mandate
    local = MemoryStorage(
      clock: options.clock, program: program, isGone: { [storage] in storage.isGone($0) })
    Self.warmUp(options.clock)
    // Unchecked, because a fork may come after the deinit has begun, but never after it has ended.
    unsafe forkGuard = ForkGuard(
      of: self,
      before: { [unowned(unsafe) self] in unsafe willFork() },
      after: { [unowned(unsafe) self] isChild in unsafe didFork(isChild: isChild) })
  }

  deinit {
    close()
    local.end()
    unsafe forkGuard?.end()
  }

  func close() {
    if look({ $0.availability.health }) != .untried {
      do throws(StoreError) {
        // A process that goes on alone has waited for the store once, which is enough.
        try flush(wait: isAvailable ? .usual : .brief)
      } catch {
        // The engine is ending, so no later attempt can write it.
      }
    }
    storage.close(isDone: isAvailable)
  }

  /// Closes for good: successes that are still being counted are not written, and calls that are still under
  /// way have no outcome.
  func closeForGood() {
    close()
    storage.noteExit()
    update {
      $0.outbox = Outbox()
      $0.unwrittenProbes = UnwrittenProbes()
    }
  }

  var clock: StoreClock { options.clock }

  func tell(_ event: StoreEvent) {
    if let observer = options.observer { return Patience.unbounded { observer(event) } }
    if !options.isQuiet { event.printIfStoreWasLost(by: program) }
  }

  /// Runs a body whose waits for the store together take no longer than one wait may.
  func waiting<Result, Failure: Error>(
    _ wait: Wait = .usual, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try Patience.bounded(by: Patience.deadline(of: wait, options.lockTimeout), body)
  }
}

/// The state, and its one way to change.
extension Engine {
  /// Lets the state take a step, and then tells the observer what has come of it.
  @discardableResult
  func update<Answer>(_ step: (inout EngineState) -> Answer) -> Answer {
    let (answer, events) = change(step)
    // Rule of order 3: without the lock.
    events.forEach(tell)
    return answer
  }

  /// Lets the state take a step, and returns what to tell the observer once no lock is held.
  func change<Answer>(_ step: (inout EngineState) -> Answer) -> (Answer, [StoreEvent]) {
    state.withLock { state in
      let answer = step(&state)
      // Rules of order 5 and 8: under the lock, so that what healthy calls read never contradicts
      // what is known.
      publish(state)
      return (answer, state.takeEvents())
    }
  }

  /// Shows healthy calls what has changed.
  ///
  /// Writing a value that is there already would cost them a cache miss.
  private func publish(_ state: borrowing EngineState) {
    let fingerprint = state.knowledge.vouched
    if vouched.load(ordering: .relaxed) != fingerprint {
      vouched.store(fingerprint, ordering: .releasing)
    }
    let isGone = !state.availability.isAvailable
    if isUnavailable.load(ordering: .relaxed) != isGone {
      isUnavailable.store(isGone, ordering: .relaxed)
    }
    let areSome = state.availability.areSomeAlone
    if areSomeAlone.load(ordering: .relaxed) != areSome {
      areSomeAlone.store(areSome, ordering: .relaxed)
    }
  }

  /// Looks at the state without changing it.
  func look<Answer>(_ body: (borrowing EngineState) -> Answer) -> Answer {
    state.withLock { body($0) }
  }

  /// Whether the cells know the latest state of the store.
  ///
  /// Ask this before you read a cell (rule of order 5).
  @inlinable @inline(__always) var isCurrent: Bool {
    let now = unsafe sb_load(fingerprint)
    return now == vouched.load(ordering: .acquiring) && now != 0
  }

  var isAvailable: Bool { !isUnavailable.load(ordering: .relaxed) }

  /// Whether a breaker goes on in this process alone, though the store can be used.
  func isAlone(_ cell: Cell) -> Bool { reasonAlone(cell) != nil }

  func reasonAlone(_ cell: Cell) -> StoreError? {
    guard areSomeAlone.load(ordering: .relaxed) else { return nil }
    return look { $0.availability.reasonAlone(cell) }
  }

  func cell(_ name: String) -> Cell {
    look { $0.knowledge.cells[name] } ?? update { $0.knowledge.cell(name) }
  }

  /// The breaker as last known; this reads nothing.
  func lastKnown(_ cell: Cell) -> Known {
    let now = clock.moment
    return look { $0.knowledge.lastKnown(cell, at: now) }
  }

  /// This process, as the owner of what it is given.
  func ownProcess() -> ProcessIdentity {
    let forkDepth = ForkGuard.depth
    let known = owner.withLock { $0.flatMap { $0.forkDepth == forkDepth ? $0.process : nil } }
    if let known { return known }
    let process = options.processes.current()
    owner.withLock { $0 = (forkDepth, process) }
    return process
  }

  /// This process with its lifeline, as the owner of a claim that it is about to make.
  func claimant() -> ProcessIdentity { ownProcess().holding(storage.lifeline()) }
}

/// Around a fork.
extension Engine {
  /// Creates what Swift would otherwise create at its first use, under a lock.
  ///
  /// If another thread did that while this one forked, the child would wait for a thread that it does
  /// not have.
  private static func warmUp(_ clock: StoreClock) {
    _ = clock.bootID
    _ = Jitter.drawn()
    _ = CallNesting.mayInherit
    StoreTimer.warmUp()
    BreakerJob.warmUp()
    _ = StoredBreaker(id: 0, name: "", createdAtMilliseconds: 0).policy
  }

  private func willFork() {
    // Rule of order 1. The first may take a while, in which calls go on.
    examinations.willFork()
    refreshes.willFork()
    storage.willFork()
    local.willFork()
    owner.willFork()
    state.willFork { state in
      // Neither side knows afterwards what the other one has done.
      state.knowledge.forgetAll()
      // Creates the generic types that `didFork` needs, for the reason that `warmUp` names.
      state.outbox.cells.forEach { _ = $0.pending }
    }
  }

  private func didFork(isChild: Bool) {
    // The parent writes what the parent has counted.
    state.didFork { if isChild { $0.outbox.cells.forEach { _ = $0.takePending() } } }
    owner.didFork()
    local.didFork()
    storage.didFork()
    refreshes.didFork()
    examinations.didFork()
  }
}

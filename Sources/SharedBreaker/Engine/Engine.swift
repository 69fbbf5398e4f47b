internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Synchronization

/// Keeps what this process knows of its breakers as current as the store, and copes without it.
///
/// What is known is vouched for by a fingerprint of the store: while that is unchanged, nothing
/// has to be read. Locks are taken in the order: refreshing, the storage's own, cells.
@safe final class Engine: Sendable {
  let storage: any BreakerStorage

  /// Where one load tells whether the store has changed.
  private nonisolated(unsafe) let fingerprint: UnsafePointer<UInt64>
  let local: MemoryStorage
  let options: StoreOptions
  let program: String

  /// The fingerprint up to which every cell is current; 0 if none is.
  let seen = Atomic<UInt64>(0)
  let refreshing = Lock()

  // Written under the lock for refreshing.
  let failedRefreshes = Atomic<Int64>(0)
  nonisolated(unsafe) var refreshError: StoreError?

  let cellsLock = Lock()

  nonisolated(unsafe) var cells = CellTable()

  /// Those that may have something of their own to write.
  nonisolated(unsafe) var cellsToWrite: [Cell] = []

  /// The policy that was declared last: many breakers are declared with the same one.
  nonisolated(unsafe) var latestDeclared: (policy: BreakerPolicy, words: String)?
  nonisolated(unsafe) var baseline: Baseline?
  nonisolated(unsafe) private var owner: (generation: UInt64, process: ProcessIdentity)?
  nonisolated(unsafe) var health = StoreHealth.untried

  let isUnavailable = Atomic<Bool>(false)
  let nextAttempt = Atomic<Int64>(0)
  let nextRound = Atomic<Int64>(0)

  /// The same as an instant, for calls that have read the boot clock anyway.
  let nextRoundOnBootClock = Atomic<Int64>(0)
  let isSystemClock: Bool

  /// Raised whenever all that was known is forgotten.
  nonisolated(unsafe) var era: Int64 = 0
  nonisolated(unsafe) private var forkGuard: ForkGuard?
  let loneBreakers = LoneBreakers()
  let examinations = ForkGate()

  /// Up to where the changes of the store have been read.
  struct Baseline {
    var continuity: Int64
    var revision: Int64
    var deletedRevision: Int64
  }

  init(storage: any BreakerStorage, options: StoreOptions, program: String) {
    self.storage = storage
    unsafe fingerprint = storage.fingerprint
    isSystemClock = options.clock.isSystem
    self.options = options
    self.program = program
    local = MemoryStorage(
      clock: options.clock, program: program, isGone: options.processes.isGone)
    Self.makeWhatIsMadeOnce(options.clock)
    // Not checked: a fork may find the deinit begun, but never over.
    unsafe forkGuard = ForkGuard(
      of: self,
      before: { [unowned(unsafe) self] in unsafe willFork() },
      after: { [unowned(unsafe) self] isChild in unsafe didFork(isChild: isChild) })
  }

  /// Makes what else would be made at its first use.
  ///
  /// The child of a fork that finds another thread at it would wait for that thread, which it does
  /// not have.
  private static func makeWhatIsMadeOnce(_ clock: StoreClock) {
    _ = clock.bootID
    _ = Jitter.drawn()
    StoreTimer.makeWhatIsMadeOnce()
    _ = StoredBreaker(id: 0, name: "", createdAtMilliseconds: 0).policy
  }

  private func willFork() {
    // First, for it may take a while, in which calls go on.
    examinations.willFork()
    refreshing.lock()
    storage.willFork()
    local.willFork()
    cellsLock.lock()
    // Neither side knows afterwards what the other one has done.
    forgetAll()
    // What Swift makes at the first use of a generic type is made here: a child that finds another
    // thread at it would wait for that thread, which it does not have.
    unsafe cellsToWrite.forEach { _ = $0.pending }
  }

  private func didFork(isChild: Bool) {
    // What the parent has counted, the parent writes.
    if isChild { unsafe cellsToWrite.forEach { _ = $0.takePending() } }
    cellsLock.unlock()
    local.didFork()
    storage.didFork()
    refreshing.unlock()
    examinations.didFork()
  }

  deinit {
    close()
    unsafe forkGuard?.end()
  }

  func close() {
    if cellsLock.withLock({ unsafe health }) == .connected {
      writePending(wait: .usual)
      storage.finish()
    }
    storage.close()
  }

  var clock: StoreClock { options.clock }

  /// Whether what the cells know is what the store holds at this moment.
  var isCurrent: Bool {
    let now = unsafe sb_load(fingerprint)
    return now == seen.load(ordering: .acquiring) && now != 0
  }

  func cell(_ name: String) -> Cell {
    cellsLock.withLock {
      if let cell = unsafe cells[name] { return cell }
      let cell = Cell(name: name)
      unsafe cells.insert(cell)
      return cell
    }
  }

  /// This process, as the owner of what it is given.
  func ownProcess() -> ProcessIdentity {
    let generation = ForkGuard.generation
    let known = cellsLock.withLock {
      unsafe owner.flatMap { $0.generation == generation ? $0.process : nil }
    }
    if let known { return known }
    let process = options.processes.current()
    cellsLock.withLock { unsafe owner = (generation, process) }
    return process
  }

  /// What the store holds of a breaker now.
  func known(_ cell: Cell) throws(StoreError) -> Known {
    while true {
      if !isCurrent { try refresh() }
      let (known, era) = cellsLock.withLock { unsafe (cell.known, self.era) }
      if let known { return known }
      let found = try storage.find(cell.name)
      if let known = learn(found, of: cell, in: era, keeping: false) { return known }
    }
  }

  /// A breaker as it stands at a moment, for those who look.
  func snapshot(of breaker: StoredBreaker, at now: Moment) -> BreakerSnapshot {
    BreakerSnapshot(of: breaker, at: now, isGone: options.processes.isGone)
  }

  /// What was last known of a breaker, without asking.
  func lastKnown(_ cell: Cell) -> Known {
    cellsLock.withLock {
      if let known = unsafe cell.known { return known }
      return cell.remembered.map { Known($0, exists: true) } ?? unwritten(cell)
    }
  }

  /// Takes over what was read of a breaker; what is newer stays.
  ///
  /// - Returns: What is known then; nil if all was forgotten since the reading began.
  @discardableResult
  func learn(
    _ breaker: StoredBreaker?, of cell: Cell, in era: Int64, keeping: Bool
  ) -> Known? {
    let read = breaker.map { Known($0, exists: true, counters: storage.counters(of: $0)) }
    let (known, event) = cellsLock.withLock { () -> (Known?, StoreEvent?) in
      guard unsafe era == self.era else { return (nil, nil) }
      if let read {
        let event = take(read, in: cell, keeping: keeping)
        return (unsafe cell.known ?? read, event)
      }
      // A healthy one may have been made and read meanwhile.
      if unsafe cell.known == nil, unsafe cell.revision != .min { return (nil, nil) }
      let known = unsafe cell.known ?? unwritten(cell)
      // What goes on alone is never let through from memory.
      guard loneBreakers[cell] == nil else { return (known, nil) }
      cell.learn(known, keeping: true)
      noteToWrite(cell)
      return (known, nil)
    }
    if let event { tell(event) }
    return known
  }

  /// Takes over what was read, and answers what happened to the policy declared here, if anything.
  ///
  /// Under the lock for cells.
  func take(_ read: Known, in cell: Cell, keeping: Bool) -> StoreEvent? {
    // What is known not to exist was deleted if it was written before the latest deletion.
    let latest = unsafe cell.known?.exists == false ? baseline?.deletedRevision ?? 0 : cell.revision
    guard read.breaker.revision >= latest else { return nil }
    cell.learn(read, keeping: keeping)
    noteToWrite(cell)
    return overruling(of: cell)
  }

  /// Remembers a cell that may have something to write; under the lock for cells.
  func noteToWrite(_ cell: Cell) {
    guard cell.mayHaveToWrite, unsafe !cell.isNoted else { return }
    cell.note()
    unsafe cellsToWrite.append(cell)
  }

  /// A breaker of which nobody has had anything to write.
  private func unwritten(_ cell: Cell) -> Known {
    var breaker = StoredBreaker(
      id: 0, name: cell.name, createdAtMilliseconds: clock.wallMilliseconds)
    breaker.codeWords = unsafe cell.declared
    return Known(breaker, exists: false)
  }

  /// Forgets what is known of every breaker: it is read again when it is used.
  ///
  /// Under the lock for cells.
  func forgetAll() {
    unsafe era += 1
    unsafe cells.cells.forEach { $0.forget() }
  }

  /// Makes the next call read everything anew.
  func forgetBaseline() {
    cellsLock.withLock {
      seen.store(0, ordering: .releasing)
      unsafe baseline = nil
    }
  }

  func tell(_ event: StoreEvent) { options.observer?(event) }
}

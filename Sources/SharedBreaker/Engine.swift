internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Keeps what this process knows of its breakers as current as the store, and copes without it.
///
/// What is known is vouched for by a fingerprint of the store: while that is unchanged, nothing
/// has to be read. Locks are taken in the order: refreshing, the storage's own, cells.
final class Engine: Sendable {
  let storage: any BreakerStorage
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

  /// By the bytes of the name, as the file has them: to Swift other bytes can be an equal text.
  nonisolated(unsafe) var cells: [[UInt8]: Cell] = [:]
  nonisolated(unsafe) var baseline: Baseline?
  nonisolated(unsafe) private var owner: (generation: UInt64, process: ProcessIdentity)?
  nonisolated(unsafe) var health = StoreHealth.untried

  let isUnavailable = Atomic<Bool>(false)
  let nextAttempt = Atomic<Int64>(0)
  private let nextRound = Atomic<Int64>(0)
  nonisolated(unsafe) private var forkGuard: ForkGuard?

  /// Up to where the changes of the store have been read.
  struct Baseline {
    var lineage: Int64
    var revision: Int64
    var deletedRevision: Int64
  }

  init(storage: any BreakerStorage, options: StoreOptions, program: String) {
    self.storage = storage
    self.options = options
    self.program = program
    local = MemoryStorage(clock: options.clock, program: program)
    // Not checked: a fork may find the deinit begun, but never over.
    unsafe forkGuard = ForkGuard(
      of: self,
      before: { [unowned(unsafe) self] in unsafe willFork() },
      after: { [unowned(unsafe) self] isChild in unsafe didFork(isChild: isChild) })
  }

  private func willFork() {
    refreshing.lock()
    storage.willFork()
    local.willFork()
    cellsLock.lock()
  }

  private func didFork(isChild: Bool) {
    // What the parent has counted, the parent writes.
    if isChild { unsafe cells.values.forEach { _ = $0.takePending() } }
    cellsLock.unlock()
    local.didFork()
    storage.didFork()
    refreshing.unlock()
  }

  deinit {
    close()
    unsafe forkGuard?.end()
  }

  func close() {
    if cellsLock.withLock({ unsafe health }) == .connected { writePending(wait: .usual) }
    storage.close()
  }

  var clock: StoreClock { options.clock }

  /// Whether what the cells know is what the store holds at this moment.
  var isCurrent: Bool {
    let fingerprint = storage.currentFingerprint()
    return fingerprint != 0 && fingerprint == seen.load(ordering: .acquiring)
  }

  func cell(_ name: String) -> Cell {
    let key = Array(name.utf8)
    return cellsLock.withLock {
      if let cell = unsafe cells[key] { return cell }
      let cell = Cell(name: name)
      unsafe cells[key] = cell
      return cell
    }
  }

  func allCells() -> [Cell] { cellsLock.withLock { unsafe Array(cells.values) } }

  /// This process, as the owner of what it is given.
  func ownProcess() -> ProcessIdentity {
    let generation = ForkGuard.generation
    let known = cellsLock.withLock {
      unsafe owner.flatMap { $0.generation == generation ? $0.process : nil }
    }
    if let known { return known }
    let process = ProcessTable.current()
    cellsLock.withLock { unsafe owner = (generation, process) }
    return process
  }

  /// What the store holds of a breaker now.
  func known(_ cell: Cell) throws(StoreError) -> Known {
    if !isCurrent { try refresh() }
    if let known = cellsLock.withLock({ unsafe cell.known }) { return known }
    return learn(try storage.find(cell.name), of: cell)
  }

  /// What was last known of a breaker, without asking.
  func lastKnown(_ cell: Cell) -> Known {
    cellsLock.withLock { unsafe cell.known ?? unwritten(cell) }
  }

  /// Takes over what was read of a breaker, unless something newer is known.
  @discardableResult
  func learn(_ breaker: StoredBreaker?, of cell: Cell) -> Known {
    let (known, event) = cellsLock.withLock { () -> (Known, StoreEvent?) in
      if let breaker {
        let event = take(breaker, in: cell, evenIfOlder: false)
        return (unsafe cell.known ?? Known(breaker, exists: true), event)
      }
      let known = unsafe cell.known ?? unwritten(cell)
      set(known, in: cell)
      return (known, nil)
    }
    if let event { tell(event) }
    return known
  }

  /// Takes over what was read, and answers what happened to the policy declared here, if anything.
  ///
  /// Under the lock for cells.
  func take(_ breaker: StoredBreaker, in cell: Cell, evenIfOlder: Bool) -> StoreEvent? {
    if let known = unsafe cell.known, !evenIfOlder {
      // What is known not to exist was deleted if it was written before the latest deletion.
      let latest = known.exists ? known.breaker.revision : unsafe baseline?.deletedRevision ?? 0
      guard breaker.revision >= latest else { return nil }
    }
    set(Known(breaker, exists: true, before: unsafe cell.known), in: cell)
    guard let declared = unsafe cell.declared, let inForce = breaker.codeWords else { return nil }
    let wasOverruled = unsafe cell.isOverruled
    unsafe cell.isOverruled = declared != inForce
    guard declared != inForce, !wasOverruled else { return nil }
    return .policyDiffers(name: cell.name, declaredHere: declared, inForce: inForce)
  }

  private func set(_ known: Known, in cell: Cell) {
    unsafe cell.known = known
    cell.word.store(known.word, ordering: .releasing)
  }

  /// A breaker of which nobody has had anything to write.
  private func unwritten(_ cell: Cell) -> Known {
    var breaker = StoredBreaker(
      id: 0, name: cell.name, createdAtMilliseconds: clock.wallMilliseconds)
    breaker.codeWords = unsafe cell.declared
    return Known(breaker, exists: false)
  }

  /// Makes the next call read everything anew.
  func forgetBaseline() {
    cellsLock.withLock {
      seen.store(0, ordering: .releasing)
      unsafe baseline = nil
    }
  }

  /// Whether the next call has to make the rounds.
  var isRoundDue: Bool { clock.coarseNanoseconds >= nextRound.load(ordering: .relaxed) }

  /// Once a second, by whichever call comes first: looks after the file and writes what is pending.
  func doRounds() {
    let now = clock.coarseNanoseconds
    let due = nextRound.load(ordering: .relaxed)
    guard now >= due else { return }
    let isMine = nextRound.compareExchange(
      expected: due, desired: now + 1_000_000_000, ordering: .relaxed
    ).exchanged
    guard isMine else { return }
    storage.checkIdentity()
    if !isUnavailable.load(ordering: .relaxed) { writePending(wait: .brief) }
  }

  func tell(_ event: StoreEvent) { options.observer?(event) }
}

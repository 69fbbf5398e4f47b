package import BreakerCore

/// The slots of all breakers in one memory.
final class MemorySlots: Sendable {
  private let state = Guarded(State())
  private let judge: @Sendable (ProcessIdentity) -> Bool

  private struct State {
    var tables: [Key: MemorySlotTable] = [:]
    var sides: [Side: MemoryBreakerSlots] = [:]
  }

  /// The slots of a breaker as one process uses them.
  private struct Side: Hashable {
    let breaker: Key
    let process: ProcessIdentity
  }

  /// What a breaker is known by: its row, or its name if it stands in for a row that is not known.
  enum Key: Hashable {
    case row(Int64)
    case name(String)
  }

  init(isGone: @escaping @Sendable (ProcessIdentity) -> Bool) { judge = isGone }

  /// The slots of a breaker, as one process uses them.
  func slots(of breaker: Key, as process: ProcessIdentity) -> MemoryBreakerSlots {
    state.withLock { state in
      let side = Side(breaker: breaker, process: process)
      if let slots = state.sides[side] { return slots }
      let table = state.tables[breaker] ?? MemorySlotTable(breaker, judge)
      state.tables[breaker] = table
      let slots = MemoryBreakerSlots(table, process)
      state.sides[side] = slots
      return slots
    }
  }

  /// Who has slots of a breaker, and who waits, if anybody has ever had any.
  func state(of breaker: Key) -> SlotState {
    state.withLock { $0.tables[breaker] }?.state() ?? SlotState()
  }

  func willFork() {
    state.willFork { state in for table in state.tables.values { table.willFork() } }
  }

  func didFork() {
    state.didFork { state in for table in state.tables.values { table.didFork() } }
  }
}

/// The slots of one breaker in memory, as one process uses them.
package final class MemoryBreakerSlots: CallSlots {
  package let number = SlotNumber.next()
  private let table: MemorySlotTable
  private let process: ProcessIdentity

  fileprivate init(_ table: MemorySlotTable, _ process: ProcessIdentity) {
    self.table = table
    self.process = process
  }

  package func take(_ claim: CallClaim, _ terms: SlotTerms) -> HeldSlot? {
    table.take(claim, terms, by: owner).map { HeldSlot(number: $0, of: number) }
  }

  package func enter(_ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait?) -> SlotEntry {
    switch table.enter(claim, terms, by: owner, wait: wait) {
    case .begun(let call): .begun(HeldSlot(number: call, of: number))
    case .busy: .busy
    case .unwanted: .unwanted
    case .outdated: .outdated
    }
  }

  /// Waits in a thread of its own: few callers wait in memory.
  package func queue(
    _ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait,
    _ answer: @escaping @Sendable (SlotEntry) -> Void
  ) -> QueuedCall {
    if let held = take(claim, terms) { return .answered(.begun(held)) }
    let isWanted = Guarded(true)
    let patient = SlotWait(
      until: wait.until, while: { isWanted.withLock { $0 } && wait.isWanted() },
      asleep: { HelperGate.outside($0) })
    let isStarted = SystemThread.startDetached("breaker-queue") { [self] in
      HelperGate.inside {
        let entry = enter(claim, terms, wait: patient)
        // A caller that has given up is told that there is no room.
        answer(entry == .unwanted && !isWanted.withLock { $0 } ? .busy : entry)
      }
    }
    guard isStarted else { return .answered(.busy) }
    return .waiting { [self] in
      isWanted.withLock { $0 = false }
      wakeAll()
    }
  }

  @discardableResult package func end(_ held: HeldSlot) -> Bool {
    held.block == number && table.end(held.number, by: owner)
  }

  package func isUnderWay(_ held: HeldSlot) -> Bool {
    held.block == number && table.isUnderWay(held.number, by: owner)
  }

  /// No other process has this memory.
  package func isUnderWay(_ inherited: InheritedSlot) -> Bool { false }
  package func hasEnded(_ inherited: InheritedSlot) -> Bool { false }
  package func inheritance(of held: HeldSlot) -> InheritedSlot? { nil }

  @discardableResult package func adopt(_ terms: SlotTerms) -> Bool {
    table.adopt(terms, isForced: false)
  }

  package func impose(_ terms: SlotTerms) { _ = table.adopt(terms, isForced: true) }

  package func wakeAll() { table.wakeAll() }

  package func termsInForce(places: Int) -> SlotTerms? { table.termsInForce(places: places) }

  package func lookAround() { table.lookAround() }
  /// A process of a simulated host lives until a test ends it, so its rounds are enough.
  package func lookOnArrival() {}

  package var hasUncountedLosses: Bool { table.hasUncountedLosses }

  package func uncountedLosses(of breaker: Int64, in total: Int64) -> LostCalls? {
    table.uncountedLosses(of: breaker, in: total)
  }

  package func noteCounted(_ lost: LostCalls) { table.noteCounted(lost) }

  package var usage: SlotUsage { table.usage }
  package var areCallsSeen: Bool { true }

  private var owner: MemorySlotOwner {
    MemorySlotOwner(process: process, forkDepth: ForkGuard.depth)
  }
}

/// Who has slots in memory.
///
/// What a process had before it was forked is not its child's.
private struct MemorySlotOwner: Hashable, Sendable {
  let process: ProcessIdentity
  let forkDepth: UInt64
}

/// A slot table under a lock, and the threads that wait for their turn.
///
/// Unchecked because the compiler does not know that the lock guards the rest.
private final class MemorySlotTable: @unchecked Sendable {
  private let lock = Lock()
  private let breaker: MemorySlots.Key
  private let judge: @Sendable (ProcessIdentity) -> Bool
  private var table: SlotTable<MemorySlotOwner>?
  private var revision: Int64 = .min
  private var sleepers: [Int64: ThreadWaker] = [:]
  private var waits = SlotWaits()

  // The calls that were found lost, and how many of them the breaker has counted.
  private var losses: Int64 = 0

  /// The processes of the calls that the breaker has yet to count.
  private var losers: [ProcessIdentity] = []
  private var ledger = LossLedger()

  /// When each call began, and when each caller that waits came, by its number or ticket.
  private var beginnings: [Int64: Int64] = [:]

  /// How often a thread that waits looks for the dead.
  private static let tick: Int64 = 50_000_000

  enum Entry {
    case begun(Int64)
    case busy
    case unwanted
    case outdated
  }

  init(_ breaker: MemorySlots.Key, _ judge: @escaping @Sendable (ProcessIdentity) -> Bool) {
    self.breaker = breaker
    self.judge = judge
  }

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  var usage: SlotUsage { lock.withLock { table?.usage ?? SlotUsage() } }

  func enter(
    _ claim: CallClaim, _ terms: SlotTerms, by owner: MemorySlotOwner, wait: SlotWait?
  ) -> Entry {
    lock.lock()
    defer { lock.unlock() }
    guard adoptLocked(terms, isForced: false) else { return .outdated }
    var entry = request(claim, by: owner, mayWait: wait != nil)
    if case .begun = entry {
    } else if expire() {
      if case .waiting(let ticket) = entry { _ = table?.withdraw(ticket: ticket) }
      entry = request(claim, by: owner, mayWait: wait != nil)
    }
    switch entry {
    case .begun(let call): return .begun(call)
    case .busy: return .busy
    case .waiting(let ticket):
      guard let wait else { return .busy }
      return attend(ticket, wait)
    }
  }

  func take(_ claim: CallClaim, _ terms: SlotTerms, by owner: MemorySlotOwner) -> Int64? {
    lock.withLock {
      guard adoptLocked(terms, isForced: false),
        case .begun(let call) = request(claim, by: owner, mayWait: false)
      else { return nil }
      return call
    }
  }

  func end(_ call: Int64, by owner: MemorySlotOwner) -> Bool {
    lock.withLock {
      guard table?.calls[call]?.owner == owner, table?.end(call) == true else { return false }
      beginnings[call] = nil
      wakeDue()
      return true
    }
  }

  func isUnderWay(_ call: Int64, by owner: MemorySlotOwner) -> Bool {
    lock.withLock { table?.calls[call]?.owner == owner }
  }

  func adopt(_ terms: SlotTerms, isForced: Bool) -> Bool {
    lock.withLock { adoptLocked(terms, isForced: isForced) }
  }

  func termsInForce(places: Int) -> SlotTerms? {
    lock.withLock {
      table.map { SlotTerms($0.limit, places: places, revision: .min) }
    }
  }

  func lookAround() { lock.withLock { _ = expire() } }

  var hasUncountedLosses: Bool { lock.withLock { losses != ledger.counted } }

  func uncountedLosses(of breaker: Int64, in total: Int64) -> LostCalls? {
    guard self.breaker == .row(breaker) else { return nil }
    return lock.withLock {
      LostCalls(of: losers, ledger.uncounted(of: losses, in: total), of: losses)
    }
  }

  func noteCounted(_ lost: LostCalls) {
    lock.withLock {
      ledger.counted = lost.countedThen
      if ledger.counted == losses { losers = [] }
    }
  }

  func wakeAll() { lock.withLock { for sleeper in sleepers.values { sleeper.wake() } } }
}

/// Under the lock.
extension MemorySlotTable {
  private func adoptLocked(_ terms: SlotTerms, isForced: Bool) -> Bool {
    guard var known = table else {
      table = SlotTable(terms.limit, places: terms.places)
      revision = terms.revision
      return true
    }
    guard isForced || terms.revision >= revision else { return known.limit == terms.limit }
    revision = terms.revision
    guard known.limit != terms.limit || known.places != terms.places else { return true }
    known.change(to: terms.limit, places: terms.places)
    table = known
    wakeDue()
    return true
  }

  private func request(
    _ claim: CallClaim, by owner: MemorySlotOwner, mayWait: Bool
  ) -> SlotTable<MemorySlotOwner>.Entry {
    let entry = table?.enter(claim, by: owner, mayWait: mayWait) ?? .busy
    switch entry {
    case .begun(let number), .waiting(let number): noteBeginning(of: number)
    case .busy: break
    }
    return entry
  }

  private func noteBeginning(of number: Int64) {
    beginnings[number] = Patience.monotonicNanoseconds()
  }

  private func begin(_ ticket: Int64) -> Int64? {
    guard let call = table?.begin(ticket: ticket) else { return nil }
    noteBeginning(of: call)
    return call
  }

  /// Who has slots, and who waits.
  func state() -> SlotState {
    lock.withLock {
      var state = SlotState()
      state.waits = waits
      guard let table else { return state }
      let now = Patience.monotonicNanoseconds()
      func participant(
        _ owner: MemorySlotOwner, _ claim: CallClaim, _ number: Int64
      ) -> SlotParticipant {
        SlotParticipant(
          process: owner.process, isGone: isGone(owner), claim: claim,
          nanoseconds: max(0, now - (beginnings[number] ?? now)))
      }
      for (number, call) in table.calls.sorted(by: { $0.key < $1.key }) {
        let claim = CallClaim(units: call.weight, priority: call.priority)
        let found = participant(call.owner, claim, number)
        if !found.isGone { state.usage[call.priority] += call.weight }
        state.calls.append(found)
      }
      state.waiters = table.waiters.map { participant($0.owner, $0.claim, $0.place.ticket) }
      return state
    }
  }

  private func isGone(_ owner: MemorySlotOwner) -> Bool {
    // The calls of the process that this one was forked from are not under way here.
    owner.forkDepth != ForkGuard.depth || judge(owner.process)
  }

  /// Waits for the turn of a ticket.
  private func attend(_ ticket: Int64, _ wait: SlotWait) -> Entry {
    let sleeper = ThreadWaker()
    sleepers[ticket] = sleeper
    let start = Patience.monotonicNanoseconds()
    var hasBegun = false
    defer {
      waits.note(Patience.monotonicNanoseconds() - start, hasBegun: hasBegun)
      beginnings[ticket] = nil
      sleepers[ticket] = nil
      _ = table?.withdraw(ticket: ticket)
      wakeDue()
    }
    while true {
      if let call = begin(ticket) {
        hasBegun = true
        return .begun(call)
      }
      // Code of the caller, which takes locks of its own.
      lock.unlock()
      let refusal = wait.refusal
      lock.lock()
      if let call = begin(ticket) {
        hasBegun = true
        return .begun(call)
      }
      if let refusal { return refusal == .unwanted ? .unwanted : .busy }
      if !sleep(sleeper, ticket, wait) { _ = expire() }
    }
  }

  /// Sleeps until the turn of a ticket; false if a tick is over first.
  ///
  /// The caller's code around the sleep takes locks of its own, so this one is free then.
  private func sleep(_ sleeper: ThreadWaker, _ ticket: Int64, _ wait: SlotWait) -> Bool {
    let end = min(wait.until, Patience.monotonicNanoseconds() + Self.tick)
    var isWoken = true
    lock.unlock()
    wait.sleeping {
      lock.withLock { if table?.due != ticket { isWoken = sleeper.wait(lock, until: end) } }
    }
    lock.lock()
    return isWoken
  }

  /// Frees what the dead have left; false if there is nothing.
  private func expire() -> Bool {
    guard var known = table else { return false }
    let depth = ForkGuard.depth
    let ended = known.calls.values.map(\.owner).filter { owner in
      owner.forkDepth == depth && judge(owner.process)
    }
    let remains = known.expire { isGone($0) }
    guard remains.calls > 0 || remains.waiters > 0 else { return false }
    table = known
    beginnings = beginnings.filter { number, _ in
      known.calls[number] != nil || known.waiters.contains { $0.place.ticket == number }
    }
    losses += Int64(ended.count)
    losers += ended.map(\.process)
    wakeDue()
    return true
  }

  private func wakeDue() {
    if let due = table?.due { sleepers[due]?.wake() }
  }
}

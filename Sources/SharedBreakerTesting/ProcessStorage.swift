internal import BreakerCore
internal import BreakerStore
internal import SharedBreaker

/// The store of a test host as one of its processes uses it.
final class ProcessStorage: BreakerStorage {
  private let host: HostState
  private let process: HostProcess
  private let author: HistoryAuthor

  init(of host: HostState, in process: HostProcess, program: String) {
    self.host = host
    self.process = process
    author = HistoryAuthor(pid: process.identity.pid, program: program)
  }

  private func memory(for purpose: StoreFailure.Purpose) throws(StoreError) -> MemoryStorage {
    if let ending = process.ending { throw ending }
    try host.failure.check(purpose)
    return host.memory
  }

  // Healthy calls load only this, so they do not notice a failure.
  var fingerprint: UnsafePointer<UInt64> { unsafe host.memory.fingerprint }
  var listeners: Listeners { host.memory.listeners }

  func open(mayCreate: Bool) throws(StoreError) { _ = try memory(for: .reading) }
  func checkIdentity() {}
  func proveWritable() throws(StoreError) { _ = try memory(for: .writing) }
  func finish() {}
  func close() {}

  // The host takes the lock of the memory for all of its stores.
  func willFork() {}
  func didFork() {}
}

/// Reading.
extension ProcessStorage {
  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    try memory(for: .reading).changes(since: revision)
  }

  func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try memory(for: .reading).find(name)
  }

  func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    try memory(for: .reading).list(beginningWith: prefix, in: state)
  }

  func read(_ listed: some Collection<ListedBreaker>) throws(StoreError) -> [StoredBreaker?] {
    try memory(for: .reading).read(listed)
  }

  func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [RecordedEvent] {
    try memory(for: .reading).history(
      of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
  }

  func events(after id: Int64, of name: String?, limit: Int) throws(StoreError) -> EventBatch {
    try memory(for: .reading).events(after: id, of: name, limit: limit)
  }

  func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    try memory(for: .reading).declarations(of: name)
  }

  func fleet() throws(StoreError) -> StoredFleet? { try memory(for: .reading).fleet() }

  func fleetOrders() throws(StoreError) -> [FleetOrder] {
    try memory(for: .reading).fleetOrders()
  }

  func pendingOrders(limit: Int) throws(StoreError) -> [PendingOrder] {
    try memory(for: .reading).pendingOrders(limit: limit)
  }

  func isRelayHeld() throws(StoreError) -> Bool { try memory(for: .reading).isRelayHeld() }
  func lineage() throws(StoreError) -> Int64 { try memory(for: .reading).lineage() }

  func counters(of breaker: StoredBreaker) -> Counters? { host.memory.counters(of: breaker) }
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { host.memory.upToDate(breaker) }
  func lifeline() -> Lifeline? { host.memory.lifeline() }
  func isGone(_ owner: ProcessIdentity) -> Bool { host.memory.isGone(owner) }
}

/// Writing.
extension ProcessStorage {
  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    let isNew = orCreate && host.memory.find(name) == nil
    return try memory(for: .writing, making: isNew).transact(
      name, orCreate: orCreate, by: author, body)
  }

  func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    let areSomeNew = steps.contains { host.memory.find($0.name) == nil }
    return try memory(for: .writing, making: areSomeNew).transact(
      together: steps, mustBeNew: mustBeNew, by: author)
  }

  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Deletion {
    try memory(for: .writing).delete(name, ifStill: version, by: author)
  }

  func answer(_ request: HookRequest) throws(StoreError) -> HookTurn {
    try memory(for: .writing).answer(request)
  }

  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try memory(for: .writing).carryOut(request, by: author)
  }

  func leaveFleet() throws(StoreError) -> Bool { try memory(for: .writing).leaveFleet() }

  func holdRelay() throws(StoreError) -> RelayHold? {
    try memory(for: .reading).holdRelay { [process] in !process.isRunning }
  }

  private func memory(
    for purpose: StoreFailure.Purpose, making isNew: Bool
  ) throws(StoreError) -> MemoryStorage {
    if isNew { _ = try memory(for: .making) }
    return try memory(for: purpose)
  }
}

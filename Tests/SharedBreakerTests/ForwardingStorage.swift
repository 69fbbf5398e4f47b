import BreakerCore
import BreakerStore

/// A storage for tests that hands on to one in memory whatever it does not do itself.
protocol ForwardingStorage: BreakerStorage {
  var memory: MemoryStorage { get }
}

extension ForwardingStorage {
  var fingerprint: UnsafePointer<UInt64> { unsafe memory.fingerprint }
  var listeners: Listeners { memory.listeners }

  func open(mayCreate: Bool) {}
  func changes(since revision: Int64?) -> StoreChanges { memory.changes(since: revision) }
  func find(_ name: String) -> StoredBreaker? { memory.find(name) }
  func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    memory.list(beginningWith: prefix, in: state)
  }
  func read(_ listed: some Collection<ListedBreaker>) -> [StoredBreaker?] { memory.read(listed) }
  func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    try memory.transact(together: steps, mustBeNew: mustBeNew)
  }
  func delete(_ name: String, ifStill version: StoredVersion?) -> Deletion {
    memory.delete(name, ifStill: version)
  }
  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) -> [RecordedEvent] {
    memory.history(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
  }
  func events(after id: Int64, of name: String?, limit: Int) -> EventBatch {
    memory.events(after: id, of: name, limit: limit)
  }
  func answer(_ request: HookRequest) -> HookTurn { memory.answer(request) }
  func declarations(of name: String) -> [StoredDeclaration] { memory.declarations(of: name) }
  func fleet() -> StoredFleet? { memory.fleet() }
  func fleetOrders() -> [FleetOrder] { memory.fleetOrders() }
  func pendingOrders(limit: Int) -> [PendingOrder] { memory.pendingOrders(limit: limit) }
  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try memory.carryOut(request)
  }
  func leaveFleet() -> Bool { memory.leaveFleet() }
  func holdRelay() -> RelayHold? { memory.holdRelay() }
  func isRelayHeld() -> Bool { memory.isRelayHeld() }
  func lineage() -> Int64 { memory.lineage() }
  func counters(of breaker: StoredBreaker) -> Counters? { nil }
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { breaker }
  func lifeline() -> Lifeline? { memory.lifeline() }
  func isGone(_ owner: ProcessIdentity) -> Bool { memory.isGone(owner) }
  func checkIdentity() {}
  func proveWritable() {}
  func finish() {}
  func close() {}
  func willFork() { memory.willFork() }
  func didFork() { memory.didFork() }
}

import BreakerCore
import BreakerStore

/// A storage for tests that hands on to one in memory whatever it does not do itself.
protocol ForwardingStorage: BreakerStorage {
  var memory: MemoryStorage { get }
}

extension ForwardingStorage {
  var fingerprint: UnsafePointer<UInt64> { unsafe memory.fingerprint }
  var listeners: Listeners { memory.listeners }
  var sharedCounters: CounterPage? { nil }
  func slots(ofBreaker id: Int64, forCalls calls: Int) -> SlotBlock? {
    memory.slots(ofBreaker: id, forCalls: calls)
  }
  func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    memory.slotStates(ofBreakers: ids)
  }

  func lifeline() -> Lifeline? { memory.lifeline() }
  func isGone(_ owner: ProcessIdentity) -> Bool { memory.isGone(owner) }
  func holdRelay() -> RelayHold? { memory.holdRelay() }
  func isRelayHeld() -> Bool { memory.isRelayHeld() }
  func lookAfterSlots() {}
  func noteExit() {}
  func open(mayCreate: Bool) {}
  func checkIdentity() {}
  func close(isDone: Bool) {}
  func atFork(_ moment: ForkMoment) { memory.atFork(moment) }
  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    try memory.changes(since: revision)
  }

  func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try memory.read(isLong: isLong, body)
  }

  func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    try memory.write(wait: wait, body)
  }
}

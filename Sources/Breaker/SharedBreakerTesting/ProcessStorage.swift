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

  /// The memory of the host, unless the process has ended or the store fails.
  private func memory(for purpose: StoreFailure.Purpose) throws(StoreError) -> MemoryStorage {
    if let ending = process.ending { throw ending }
    try host.failure.check(purpose)
    return host.memory
  }

  private var user: StoreUser { StoreUser(author, lackOfRoom: host.failure.error(.making)) }

  // Healthy calls load only this, so they do not notice a failure.
  var fingerprint: UnsafePointer<UInt64> { unsafe host.memory.fingerprint }
  var listeners: Listeners { host.memory.listeners }
  var sharedCounters: CounterPage? { nil }

  func slots(ofBreaker id: Int64, forCalls calls: Int) -> SlotBlock? {
    host.memory.slots(ofBreaker: id, as: process.identity)
  }

  func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    host.memory.slotStates(ofBreakers: ids)
  }

  func lifeline() -> Lifeline? { nil }
  func isGone(_ owner: ProcessIdentity) -> Bool { host.memory.isGone(owner) }

  func holdRelay() throws(StoreError) -> RelayHold? {
    try memory(for: .reading).holdRelay { [process] in !process.isRunning }
  }

  func isRelayHeld() throws(StoreError) -> Bool { try memory(for: .reading).isRelayHeld() }

  func lookAfterSlots() {}
  func noteExit() {}

  func open(mayCreate: Bool) throws(StoreError) { _ = try memory(for: .reading) }
  func checkIdentity() {}
  func close(isDone: Bool) {}

  // The host takes the lock of the memory for all of its stores.
  func atFork(_ moment: ForkMoment) {}

  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    try memory(for: .reading).changes(since: revision)
  }

  func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try memory(for: .reading).read(isLong: isLong, body)
  }

  func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    (try memory(for: .writing).write(as: user, body), nil)
  }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try memory(for: .writing).transact(name, orCreate: orCreate, as: user, body)
  }
}

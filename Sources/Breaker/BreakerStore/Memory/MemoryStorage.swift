package import BreakerCore
internal import CHost

/// Breakers in the memory of one process: for the time that a store cannot be used, and for tests.
@safe package final class MemoryStorage: BreakerStorage {
  private let clock: StoreClock
  private let program: String
  private let place: Guarded<MemoryPlace>
  package let memoryOwners: MemoryOwners
  private let slotMemory: SlotMemory

  // The pointer never changes, and its target is set atomically.
  private nonisolated(unsafe) let counter: UnsafeMutablePointer<UInt64>
  package let listeners = Listeners(path: nil)

  package init(
    clock: StoreClock, program: String, room: Int? = nil,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool
  ) {
    self.clock = clock
    self.program = program
    memoryOwners = MemoryOwners(isGone: isGone)
    slotMemory = SlotMemory(isGone: isGone)
    let place = MemoryPlace(
      clock: clock, user: MemoryUser(HistoryAuthor(pid: 0, program: program)),
      room: room.map { Int64($0) } ?? StoreRoom.usualBreakers, isGone: isGone)
    unsafe counter = .allocate(capacity: 1)
    unsafe counter.initialize(to: place.changes)
    self.place = Guarded(place)
  }

  deinit { unsafe counter.deallocate() }

  package var fingerprint: UnsafePointer<UInt64> { unsafe UnsafePointer(counter) }
  package var owners: any StoreOwners { memoryOwners }
  package var sharedCounters: CounterPage? { nil }

  /// Uses the place under its lock, and publishes whether breakers have changed.
  private func withPlace<Answer>(
    _ body: (MemoryPlace) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try place.withLock { place throws(StoreError) in
      defer { unsafe sb_set(counter, place.changes) }
      return try body(place)
    }
  }

  /// This process, computed each time, because a fork makes another one.
  private var user: MemoryUser {
    MemoryUser(HistoryAuthor(pid: ProcessTable.ownPid, program: program))
  }

  package func slots(ofBreaker id: Int64) -> SlotBlock? {
    slots(ofBreaker: id, as: Self.onlyProcess)
  }

  /// The slots of a breaker that stands in for one of another storage.
  package func slots(ofBreakerNamed name: String) -> SlotBlock? {
    slotMemory.block(of: .name(name), as: Self.onlyProcess)
  }

  /// Who has these slots, and who waits.
  package func slotState(ofBreakerNamed name: String) -> SlotState {
    slotMemory.state(of: .name(name))
  }

  /// The owner of all calls in a memory that only this process uses.
  private static var onlyProcess: ProcessIdentity {
    ProcessIdentity(pid: ProcessTable.ownPid, startTicks: 0, pidNamespace: 0)
  }

  /// The slots of a breaker as one process of the host uses them.
  package func slots(ofBreaker id: Int64, as process: ProcessIdentity) -> SlotBlock? {
    id > 0 ? slotMemory.block(of: .row(id), as: process) : nil
  }

  package func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    Dictionary(ids.map { ($0, slotMemory.state(of: .row($0))) }, uniquingKeysWith: { $1 })
  }

  package func lookAfterSlots() {}
  package func noteExit() {}

  package func open(mayCreate: Bool) {}
  package func checkIdentity() {}
  package func close(isDone: Bool) {}

  package func atFork(_ moment: ForkMoment) {
    switch moment {
    case .before:
      place.willFork()
      slotMemory.willFork()
      listeners.willFork()
      memoryOwners.willFork()
    case .after:
      memoryOwners.didFork()
      listeners.didFork()
      slotMemory.didFork()
      place.didFork()
    }
  }

  package func changes(since revision: Int64?) -> StoreChanges {
    place.withLock { $0.changes(since: revision) }
  }

  package func read<Answer>(
    isLong: Bool, _ body: (any StoreReading) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try place.withLock { place throws(StoreError) in try place.read(body) }
  }

  package func write<Answer>(
    wait: Wait, _ body: (any StorePlace) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    (try write(as: user, body), nil)
  }

  /// Runs a body in one transaction of a user.
  package func write<Answer>(
    as user: MemoryUser, _ body: (any StorePlace) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try transaction(of: user) { place throws(StoreError) in try body(place) }
  }

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try transact(name, orCreate: orCreate, as: user, body)
  }

  /// Takes a step on a breaker for a user.
  package func transact<Answer>(
    _ name: String, orCreate: Bool, as user: MemoryUser, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    var answer: Answer?
    let taken = try transaction(of: user) { place throws(StoreError) in
      try place.take(name, orCreate: orCreate) { answer = body(&$0) }
    }
    guard let taken, let answer else { return nil }
    return Transacted(answer: answer, breaker: taken.breaker, events: taken.events)
  }

  private func transaction<Answer>(
    of user: MemoryUser, _ body: (MemoryPlace) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    var wakesListeners = false
    let answer = try withPlace { place throws(StoreError) in
      let answer = try place.transaction(of: user, body)
      wakesListeners = place.demands.wakesListeners
      return answer
    }
    if wakesListeners { listeners.wake() }
    return answer
  }
}

/// What only a store in memory can do.
extension MemoryStorage {
  /// The breaker of that name, or nil if there is none.
  package func find(_ name: String) -> StoredBreaker? { place.withLock { $0.find(name) } }

  /// Forgets a breaker without an event.
  package func forget(_ name: String) { show { $0.forget(name) } }

  /// Forgets every breaker but those of some names.
  package func clear(keeping names: [String]) {
    let kept = Set(names.map { NameBytes($0) })
    show { $0.clear(keeping: kept) }
  }

  /// Adds a breaker as another storage knew it, unless there is one of its name.
  package func seed(_ breaker: StoredBreaker) { show { $0.seed(breaker) } }

  /// Carries everything over into the present boot of the host, but for the calls that were under way.
  package func carryOverReboot() {
    slotMemory.beginAgain()
    show { $0.carryOverReboot() }
  }

  /// Lets the next caller find the room of processes that have just ended.
  package func letDeathsBeSeen() { slotMemory.letDeathsBeSeen() }

  private func show(_ body: (MemoryPlace) -> Void) {
    place.withLock { place in
      body(place)
      unsafe sb_set(counter, place.changes)
    }
  }
}

/// What processes hold in a store in memory.
package final class MemoryOwners: StoreOwners {
  private let judge: @Sendable (ProcessIdentity) -> Bool
  private let relay = Guarded(Relay())

  /// The process that is the relay, by a number, and whether it has ended.
  private struct Relay {
    var number: Int64 = 0
    var isGone: (@Sendable () -> Bool)?
    var isHeld: Bool { isGone.map { !$0() } ?? false }
  }

  init(isGone: @escaping @Sendable (ProcessIdentity) -> Bool) { judge = isGone }

  package func lifeline() -> Lifeline? { nil }

  package func isGone(_ owner: ProcessIdentity) -> Bool { judge(owner) }

  package func holdRelay() -> RelayHold? { holdRelay { false } }

  /// Does the same for a process that may end without giving the right back.
  package func holdRelay(isGone: @escaping @Sendable () -> Bool) -> RelayHold? {
    relay.withLock { relay in
      guard !relay.isHeld else { return nil }
      relay.number += 1
      relay.isGone = isGone
      let number = relay.number
      return RelayHold { [self] in
        self.relay.withLock { if $0.number == number { $0.isGone = nil } }
      }
    }
  }

  package func isRelayHeld() -> Bool { relay.withLock { $0.isHeld } }

  func willFork() { relay.willFork() }
  func didFork() { relay.didFork() }
}

internal import BreakerCore
internal import CHost

/// The slots of a store in memory, for all processes of its host.
///
/// They are as in a file, and each process is an owner in the table, so a test host counts, frees and wakes as real
/// processes do. Only the file is missing, and the kernel is not asked who has ended. The child of a fork has a copy
/// of the memory, in which it finds calls of its parent that never end there, so it begins with new slots.
final class SlotMemory: Sendable {
  private let state = Guarded(State())
  private let judge: OwnerJudge
  private let clock: StoreClock

  /// The name by which a breaker has its slots: its row, or its name if it stands in for one of another store.
  enum Key: Hashable {
    case row(Int64)
    case name(String)

    fileprivate var row: Int64 {
      switch self {
      case .row(let id): id
      case .name: 0
      }
    }
  }

  private struct State {
    let forkDepth = ForkGuard.depth
    var head: SlotMapping?
    var parts: [Key: SlotMapping] = [:]
    var owners: [ProcessIdentity: SlotOwners] = [:]
    var blocks: [Side: SlotBlock] = [:]
  }

  /// A breaker as one process uses it.
  private struct Side: Hashable {
    let breaker: Key
    let process: ProcessIdentity
  }

  init(judge: OwnerJudge, clock: StoreClock) {
    self.judge = judge
    self.clock = clock
  }

  /// The slots of a breaker as one process uses them; nil if the system has no memory left for them.
  func block(of breaker: Key, as process: ProcessIdentity) -> SlotBlock? {
    withState { state in
      let side = Side(breaker: breaker, process: process)
      if let known = state.blocks[side] { return known }
      guard let head = state.head ?? SlotMapping(inMemory: SlotFile.kind.bytesOfHeader),
        let part = state.parts[breaker] ?? SlotMapping(inMemory: SlotFile.bytesOfBlockWithRing)
      else { return nil }
      let owners = state.owners[process] ?? SlotOwners(head, judge: judge) { process }
      let block = SlotBlock(
        part, owners, of: breaker.row, number: SlotNumber.next(), ringCapacity: CallRate.most,
        clock: clock)
      state.head = head
      state.parts[breaker] = part
      state.owners[process] = owners
      state.blocks[side] = block
      return block
    }
  }

  /// The calls under way on a breaker, and the callers that wait.
  func state(of breaker: Key) -> SlotState {
    let block = withState { state -> SlotBlock? in
      guard let head = state.head, let part = state.parts[breaker] else { return nil }
      // The viewer takes nothing, so it enters no process.
      let viewer = SlotOwners(head, judge: judge) { ProcessTable.current() }
      return SlotBlock(
        part, viewer, of: breaker.row, number: 0, ringCapacity: CallRate.most, clock: clock)
    }
    return block?.state(at: sb_coarse_nanoseconds()) ?? SlotState()
  }

  /// Lets the next caller find what processes have left that have just ended, as if time had passed since.
  func letDeathsBeSeen() {
    for block in withState({ Array($0.blocks.values) }) { block.letDeathsBeSeen() }
  }

  /// Begins with new slots; calls that are under way end in the earlier ones.
  func beginAgain() { state.withLock { $0 = State() } }

  private func withState<Answer>(_ body: (inout State) -> Answer) -> Answer {
    state.withLock { state in
      if state.forkDepth != ForkGuard.depth { state = State() }
      return body(&state)
    }
  }

  func willFork() {
    state.willFork { state in
      for owners in state.owners.values { owners.willFork() }
      for block in state.blocks.values { block.care.willFork() }
    }
  }

  func didFork() {
    state.didFork { state in
      for block in state.blocks.values { block.care.didFork() }
      for owners in state.owners.values { owners.didFork() }
    }
  }
}

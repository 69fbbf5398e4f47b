internal import BreakerCore
internal import CHost
internal import Glibc

/// The slots that all processes of a store share, mapped into memory.
///
/// A store without a limit has no such file. Calls go on in the file in which they began, even if it was
/// replaced. Until they have ended, more may be under way than the limit allows. Only the latest few
/// files stay mapped; where earlier ones were mapped, there is memory of this process alone.
package final class SlotPage: Sendable {
  private let state: Guarded<State>
  private let room = SlotRoom()
  private let lifelines: Lifelines?
  private let identify: @Sendable () -> ProcessIdentity

  /// The clock of the store.
  let clock: StoreClock

  private struct State {
    var place: SharedFile.Place?
    var identity: FileIdentity?
    var head: SlotMapping?
    var owners: SlotOwners?
    var blocks: [Int64: SlotBlock] = [:]

    /// The pages in use, which the system is asked to keep in memory.
    var hot = HotPages(atMost: SlotPage.mostKeptInMemory)

    /// The mappings of files that were replaced.
    var retired: [[SlotMapping]] = []

    /// When to try again after the file could not be opened, on the monotonic clock.
    var nextTry: Int64 = 0

    /// When to look again which breakers were deleted, because there is no block left.
    var nextRelease: Int64 = 0

    /// When this process may replace a file again, so that two that disagree do not fill the disk.
    var nextReplacement: Int64 = 0
  }

  /// The slots of a store; this process holds a lifeline as long as it has them.
  package convenience init(of path: String, clock: StoreClock = .system) {
    let lifelines = Lifelines(of: path)
    self.init(lifelines, clock: clock) { ProcessTable.current().holding(lifelines.own()) }
  }

  /// The slots of a store for a process that enters itself as `identify` says.
  init(
    _ lifelines: Lifelines? = nil, clock: StoreClock = .system,
    identify: @escaping @Sendable () -> ProcessIdentity
  ) {
    self.clock = clock
    ProcessSlots.prepare()
    self.lifelines = lifelines
    self.identify = identify
    state = Guarded(State())
  }

  deinit { state.withLock { Self.letGo(&$0) } }

  package func willFork() {
    lifelines?.willFork()
    room.willFork()
    state.willFork { state in
      state.owners?.willFork()
      for block in state.blocks.values { block.care.willFork() }
    }
  }

  package func didFork() {
    state.didFork { state in
      for block in state.blocks.values { block.care.didFork() }
      state.owners?.didFork()
    }
    room.didFork()
    lifelines?.didFork()
  }

  /// Uses the file of a store from now on, which may be the one that is already in use.
  package func use(storePath: String, store: Int64, boot: Int64) {
    use(SharedFile.Place(storePath: storePath, store: store, boot: boot))
  }

  func use(_ place: SharedFile.Place) {
    state.withLock { state in
      if place != state.place { Self.retire(&state) }
      state.place = place
      state.nextTry = 0
      state.hot.keepAfterFork()
    }
  }

  /// Where the file is; nil if the store has yet to be opened.
  var place: SharedFile.Place? { state.withLock { $0.place } }

  /// Switches to the file that is at the path now, if it is a different one.
  package func lookAfterFile() {
    state.withLock { state in
      guard let place = state.place, let identity = state.identity, !state.blocks.isEmpty else {
        return
      }
      guard identity == StoreFile.identity(of: place.path(of: SlotFile.kind)) else {
        withFile(&state) { _, _ in }
        return
      }
      for block in state.blocks.values { block.keepInMemory(by: &state.hot) }
    }
  }

  /// Notes that this process loses no call that is still under way when it ends.
  package func noteExit() { state.withLock { $0.owners?.noteExit() } }

  /// The block of a breaker, with room for the instants of a rate of so many calls; nil if it cannot have one now.
  package func block(ofBreaker id: Int64, forCalls calls: Int = 0) -> SlotBlock? {
    guard id > 0 else { return nil }
    return state.withLock { state in
      let fits = { (block: SlotBlock) in
        calls == 0 || block.ringCapacity >= block.entries(forCalls: calls)
      }
      if let block = state.blocks[id], fits(block) { return block }
      withFile(&state) { state, file in
        guard let head = state.head ?? SlotMapping(file, 0, SlotFile.kind.bytesOfHeader) else {
          return
        }
        state.head = head
        guard let index = self.index(ofBreaker: id, in: head, of: file, at: state.place) else {
          return
        }
        defer { state.blocks[id]?.reserveRing(of: calls, in: file, at: index) }
        guard state.blocks[id] == nil, let place = state.place,
          let mapping = Self.mapping(of: index, in: file)
        else { return }
        let owners =
          state.owners
          ?? SlotOwners(
            head, judge: OwnerJudge(of: place.storePath), identify: identify)
        state.owners = owners
        state.blocks[id] = SlotBlock(
          mapping, owners, of: id, number: ProcessSlots.number(ofBreaker: id, in: file.identity),
          clock: clock
        ) { [room, path = place.path(of: SlotFile.kind), identity = file.identity] in
          room.reserve(SlotFile.offset(ofBlock: index) + $0, $1, inFile: identity, at: path)
        }
        state.blocks[id]?.keepInMemory(by: &state.hot)
        unsafe state.hot.keep(head.address, SlotFile.kind.bytesOfHeader)
      }
      return state.blocks[id].flatMap { fits($0) ? $0 : nil }
    }
  }

  /// Whether it is time to free the blocks of deleted breakers, because there is none left.
  ///
  /// A store may have many breakers, so reading which exist takes time.
  func isReleaseDue() -> Bool {
    state.withLock { state in
      guard let head = state.head, Patience.isOver(at: state.nextRelease), Self.isFull(head) else {
        return false
      }
      state.nextRelease = Patience.deadline(after: .seconds(10))
      return true
    }
  }

  /// Runs a body that frees blocks, under the lock of the store; does nothing if that takes long.
  func releasing(_ body: (SharedFile, SlotMapping, SlotOwners) -> Void) {
    state.withLock { state in
      withFile(&state) { state, file in
        guard let head = state.head, let place = state.place else { return }
        let owners =
          state.owners
          ?? SlotOwners(head, judge: OwnerJudge(of: place.storePath), identify: identify)
        do throws(StoreError) {
          try StoreLock.held(place.storePath, atMost: Self.patience) { _ in
            body(file, head, owners)
          }
        } catch {
          // It can wait for the next breaker that needs a block.
        }
      }
    }
  }

  /// Stops using a file.
  ///
  /// Calls still end in it, until so many others have taken its place.
  private static func retire(_ state: inout State) {
    if let head = state.head {
      state.retired.append([head] + state.blocks.values.map(\.mapping))
    }
    if state.retired.count > CounterPage.retiredFiles {
      for mapping in state.retired.removeFirst() { mapping.beEmpty() }
    }
    letGo(&state)
    state.head = nil
    state.owners = nil
    state.blocks = [:]
    state.hot = HotPages(atMost: mostKeptInMemory)
  }

  private static func letGo(_ state: inout State) {
    if let identity = state.identity { ProcessSlots.leave(identity) }
    state.identity = nil
  }

  /// How much is kept in memory: the tables, and the blocks of some sixty breakers.
  private static let mostKeptInMemory: UInt64 = 1 << 20

  /// How long to wait for a process that is creating the file: without it, a limit is not shared.
  static let patience = Duration.milliseconds(250)

  /// Opens the file only briefly, because every child would inherit a descriptor that stayed open.
  private func withFile(
    _ state: inout State, _ body: (inout State, SharedFile) -> Void
  ) {
    let now = Patience.monotonicNanoseconds()
    guard let place = state.place, now >= state.nextTry else { return }
    var found: SharedFile?
    do throws(StoreError) {
      found = try SharedFile.open(
        SlotFile.kind, place, isOfThisBoot: state.identity != nil,
        mayReplace: now >= state.nextReplacement, atMost: Self.patience)
    } catch {
      // Descriptors may be free again at once, and asking for one costs little. A wait that was ended early shows nothing.
      if error.isOfDescriptors || error.isInterrupted { return }
    }
    guard let file = found else {
      state.nextTry = Patience.deadline(after: .seconds(1))
      return
    }
    defer { close(file.descriptor) }
    if file.isReplacement { state.nextReplacement = Patience.deadline(after: .seconds(1)) }
    if file.identity != state.identity {
      Self.retire(&state)
      state.identity = file.identity
      ProcessSlots.join(file.identity)
    }
    body(&state, file)
  }

  /// Where the last block ends that a breaker has, with its instants of a rate.
  static func end(ofBlocksIn head: SlotMapping, of file: SharedFile) -> Int {
    let last = (0..<SlotFile.blocks).last { index in
      unsafe Int64(bitPattern: sb_see(head.word(SlotFile.offsetOfBlocks + index * 8))) > 0
    }
    guard let last else { return SlotFile.kind.bytesOfHeader }
    let offset = SlotFile.offset(ofBlock: last)
    let end = offset + SlotFile.bytesOfBlock
    let header = offset + SlotFile.offsetOfHeader
    guard let words = SlotMapping(copying: file, header, SlotFile.bytesOfBlockHeader) else {
      return end
    }
    let extent = unsafe sb_see(words.word(SlotBlock.HeaderWord.ringExtent.rawValue * 8))
    return extent > UInt64(CallRate.most) ? end : end + Int(extent) * 8
  }

  /// The index of a breaker's block; nil if it has none.
  static func knownIndex(ofBreaker id: Int64, in head: SlotMapping) -> Int? {
    (0..<SlotFile.blocks).first {
      unsafe sb_see(head.word(SlotFile.offsetOfBlocks + $0 * 8)) == UInt64(bitPattern: id)
    }
  }
}

internal import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// The processes that take part in the limits of a store, in the table of owners of one file.
///
/// Slots and places name their owner by a number, so that one atomic operation takes a slot and names its
/// owner. The table says which process that is, and is written before the process takes its first slot.
/// So a number that is missing from the table belongs to no living process.
@safe final class SlotOwners: Sendable {
  private let mapping: SlotMapping

  /// Where the entries begin, so that a call need not look into the mapping.
  ///
  /// Unchecked because Swift does not consider a pointer `Sendable`; all access is atomic.
  private nonisolated(unsafe) let entries: UnsafeMutablePointer<UInt64>
  private let judge: OwnerJudge

  /// This process with its lifeline.
  private let identify: @Sendable () -> ProcessIdentity

  /// Lets one thread at a time enter this process into the table.
  private let registering = Lock()

  /// The callers of this process that wait without a thread.
  let dispatcher = SlotDispatcher()

  /// Whether this process was last refused, because the table is full of processes that live.
  private let isRefused = Atomic<Bool>(false)

  // The number of this process, its index, and the fork depth for which they hold.
  private let number = Atomic<UInt64>(0)
  private let index = Atomic<Int>(0)
  private let forkDepth = Atomic<UInt64>(.max)

  init(
    _ mapping: SlotMapping, judge: OwnerJudge,
    identify: @escaping @Sendable () -> ProcessIdentity
  ) {
    self.mapping = mapping
    unsafe entries = mapping.word(SlotFile.offsetOfOwners)
    self.judge = judge
    self.identify = identify
  }

  deinit {
    if let own { remove(own) }
    ProcessSlots.remove(number.load(ordering: .relaxed))
  }

  func willFork() {
    registering.lock()
    dispatcher.willFork()
  }

  func didFork() {
    dispatcher.didFork()
    registering.unlock()
  }

  /// The number of this process; nil if it is not in the table, or no longer.
  @inline(__always) var own: UInt64? {
    guard forkDepth.load(ordering: .acquiring) == ForkGuard.depth else { return nil }
    let own = number.load(ordering: .relaxed)
    let entry = unsafe sb_load(entries + index.load(ordering: .relaxed))
    return entry == Self.registered(own) ? own : nil
  }

  /// The number of this process, which is entered into the table if it is not there; nil if the table
  /// is full of processes that live.
  func register() -> UInt64? {
    registering.withLock {
      if let own { return own }
      let process = identify()
      // An owner without a lifeline is told by its pid and its start time alone.
      let number = UInt64(process.lifeline?.byte ?? .random(in: 1 << 32..<1 << 62))
      let found = enter(number, process) ?? (expire() ? enter(number, process) : nil)
      isRefused.store(found == nil, ordering: .relaxed)
      guard let index = found else { return nil }
      let earlier = self.number.exchange(number, ordering: .relaxed)
      let earlierIndex = self.index.exchange(index, ordering: .relaxed)
      if earlier == number, earlierIndex != index { ring(earlierIndex) }
      if earlier != number {
        ProcessSlots.remove(earlier)
        ProcessSlots.add(number)
      }
      CleanExit.note(self)
      forkDepth.store(ForkGuard.depth, ordering: .releasing)
      return number
    }
  }

  /// The number of this process, which enters itself again if the table has lost it; nil if it never
  /// was in the table.
  @inline(__always) var ownAgain: UInt64? { own ?? registeredAgain }

  @inline(never) private var registeredAgain: UInt64? {
    forkDepth.load(ordering: .acquiring) == ForkGuard.depth ? register() : nil
  }

  /// Whether calls of this process are seen by others.
  var areCallsSeen: Bool { !isRefused.load(ordering: .relaxed) }

  /// Whether the table is full of processes that live, so that no process sees the calls of further ones.
  var isFull: Bool {
    (0..<SlotFile.owners).allSatisfy { unsafe sb_see(entry($0)) != 0 }
      && (0..<SlotFile.owners).allSatisfy { index in
        unsafe sb_see(entry(index)) & 3 == 2
          && process(at: index).map { !judge.hasEnded($0) } ?? false
      }
  }

  /// Whether an owner has ended for certain.
  func isGone(_ number: UInt64) -> Bool {
    if number == own { return false }
    guard let index = index(of: number) else { return true }
    // The line was written before the entry, so one that cannot be read is damaged.
    return process(at: index).map { judge.hasEnded($0) } ?? true
  }

  /// Tells which owners have ended for certain.
  ///
  /// With `believingLocks`, an owner whose lifeline is held is alive. That takes one question to the kernel
  /// instead of a dozen, but an owner that has ended is found later if another process keeps its memory.
  func judgement(believingLocks: Bool) -> (_ number: UInt64) -> Bool {
    let isHolding = believingLocks ? judge.holders() : { _ in false }
    var known: [UInt64: Bool] = [:]
    return { [self] number in
      if let known = known[number] { return known }
      let isOver = process(number).map(isHolding) != true && isGone(number)
      known[number] = isOver
      return isOver
    }
  }

  /// Notes that this process ends by itself, or its use of the store: its calls end with it, and none of
  /// them is lost.
  func noteExit() {
    guard let own else { return }
    unsafe sb_set(line(index.load(ordering: .relaxed)).advanced(by: Self.exitWord), own)
  }

  /// Whether the calls of an owner that has ended are lost.
  ///
  /// They are not if it exited by itself, or if its process runs another program now. If that program has ended
  /// as well, nothing tells it from a process that was killed.
  func hasLostCalls(_ number: UInt64) -> Bool {
    guard let index = index(of: number) else { return true }
    if unsafe sb_load(line(index).advanced(by: Self.exitWord)) == number { return false }
    return process(at: index).map { judge.hasEndedWhole($0) } ?? true
  }

  /// Whether no process can see from here whether an owner has ended.
  func isOutOfSight(_ number: UInt64) -> Bool {
    process(number).map { judge.isOutOfSight($0) } ?? false
  }

  /// The process of an owner; nil if it is not known.
  func process(_ number: UInt64) -> ProcessIdentity? {
    index(of: number).flatMap { process(at: $0) }
  }

  /// Removes an owner that has ended.
  func remove(_ number: UInt64) {
    guard let index = index(of: number) else { return }
    unsafe sb_decide(entry(index), Self.registered(number), 0)
  }
}

/// The bells of processes.
extension SlotOwners {
  /// Where this process is in the table.
  var ownIndex: Int { index.load(ordering: .relaxed) }

  private func bell(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(SlotFile.offsetOfBells + index * 8)
  }

  /// Wakes the thread of a process that waits for others.
  func ring(_ index: Int) {
    if (0..<SlotFile.owners).contains(index) { unsafe sb_ring(bell(index)) }
  }

  func ringOwn() { ring(ownIndex) }

  var ownBell: UInt32 { unsafe sb_bell(bell(ownIndex)) }

  /// Sleeps until the bell of this process is rung, or until an instant; it may also end early.
  ///
  /// - Returns: Whether something else than time has ended it.
  func sleep(_ heard: UInt32, until nanoseconds: Int64) -> Bool {
    unsafe sb_await(bell(ownIndex), heard, nanoseconds) != 0
  }
}

/// The table.
extension SlotOwners {
  private static func entering(_ number: UInt64) -> UInt64 { number << 2 | 1 }
  private static func registered(_ number: UInt64) -> UInt64 { number << 2 | 2 }

  /// The word of a line that a process writes when it exits; the words before it describe the process.
  private static let exitWord = 7

  func entry(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(SlotFile.offsetOfOwners + index * 8)
  }

  private func line(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(SlotFile.offsetOfOwnerLines + index * SlotFile.bytesOfLine)
  }

  /// The entries, from where a number is looked for first.
  private func indices(for number: UInt64) -> some Sequence<Int> {
    let first = Int(number % UInt64(SlotFile.owners))
    return (0..<SlotFile.owners).lazy.map { (first + $0) % SlotFile.owners }
  }

  private func index(of number: UInt64) -> Int? {
    indices(for: number).first { unsafe sb_see(entry($0)) == Self.registered(number) }
  }

  private func enter(_ number: UInt64, _ process: ProcessIdentity) -> Int? {
    for index in indices(for: number) {
      // In a copy of an earlier file it has an entry, of which the line may be missing. A second entry would
      // not be found.
      let found = unsafe sb_load(entry(index))
      guard found == 0 || found == Self.registered(number),
        unsafe sb_decide(entry(index), found, Self.entering(number)) != 0
      else { continue }
      let words = Self.words(number, process) + [0]
      for (offset, word) in words.enumerated() {
        unsafe sb_set(line(index).advanced(by: offset), word)
      }
      // A process that mistook this one for one that has ended has freed the entry.
      if unsafe sb_decide(entry(index), Self.entering(number), Self.registered(number)) != 0 {
        return index
      }
    }
    return nil
  }

  private func process(at index: Int) -> ProcessIdentity? {
    let words = (0..<7).map { unsafe sb_load(line(index).advanced(by: $0)) }
    guard words[0] <= SlotBound.owner, words[1] <= UInt64(Int32.max) else { return nil }
    var process = ProcessIdentity(
      pid: Int32(truncatingIfNeeded: words[1]), startTicks: words[2], pidNamespace: words[3])
    if words[4] != 0 {
      process.lifeline = Lifeline(byte: Int64(bitPattern: words[0]), file: words[4])
    }
    return Self.words(words[0], process) == words ? process : nil
  }

  /// Whether each entry is one that a process can have written.
  var isIntact: Bool {
    (0..<SlotFile.owners).allSatisfy { index in
      let found = unsafe sb_see(entry(index))
      return switch found & 3 {
      case 0: found == 0
      case 1: true
      case 2: process(at: index) != nil
      default: false
      }
    }
  }

  /// A line: the number, the process, and a checksum.
  private static func words(_ number: UInt64, _ process: ProcessIdentity) -> [UInt64] {
    let fields = [
      number, UInt64(UInt32(bitPattern: process.pid)), process.startTicks, process.pidNamespace,
      process.lifeline?.file ?? 0, 0,
    ]
    let bytes = Blobs.pack(fields.map { Int64(bitPattern: $0) })
    return fields + [UInt64(bitPattern: Checksum.of(bytes))]
  }

  /// Removes all that have ended; false if there are none.
  private func expire() -> Bool {
    var isAny = false
    for index in 0..<SlotFile.owners {
      let found = unsafe sb_load(entry(index))
      let isGone =
        switch found & 3 {
        case 2: process(at: index).map { judge.hasEnded($0) } ?? true
        // One that ended while it entered itself left nothing but its number.
        default: judge.hasReleased(Int64(bitPattern: found >> 2))
        }
      if isGone, unsafe sb_decide(entry(index), found, 0) != 0 { isAny = true }
    }
    return isAny
  }
}

/// Notes the exit of this process if it exits by itself, and is not killed.
private enum CleanExit {
  private struct One {
    weak var owners: SlotOwners?
  }

  private struct State {
    var isAsked = false
    var all: [One] = []
  }

  private static let state = Guarded(State())

  /// Has owners note the exit of this process.
  static func note(_ owners: SlotOwners) {
    let isFirst = state.withLock { state in
      state.all.removeAll { $0.owners == nil || $0.owners === owners }
      state.all.append(One(owners: owners))
      defer { state.isAsked = true }
      return !state.isAsked
    }
    // A thread that is using the list while the process exits is worth no wait.
    if isFirst {
      atexit { CleanExit.state.withLockIfFree { for one in $0.all { one.owners?.noteExit() } } }
    }
  }
}

package import BreakerCore
internal import CHost
internal import Glibc

/// The calls under way on a breaker, and the callers that wait, as they were at one moment.
package struct SlotState: Sendable, Hashable {
  /// How many units are under way; what the dead have left does not count.
  package var usage = SlotUsage()
  package var calls: [SlotParticipant] = []

  /// The callers that wait, in the order in which they are served.
  package var waiters: [SlotParticipant] = []
  package var waits = SlotWaits()

  /// How many units may be under way while the breaker ramps up; nil if no call has begun in the ramp yet, or if there
  /// is none.
  package var rampAllowance: RampAllowance?

  /// How far the rate is used up; nil if there is none in force, or if it is not known.
  package var rate: SlotRateUse?
}

/// A call under way, or a caller that waits.
package struct SlotParticipant: Sendable, Hashable {
  /// The process; nil if it is not known.
  package var process: ProcessIdentity?

  /// Whether the process has certainly ended.
  package var isGone: Bool

  /// Whether a caller that waits did not come when it was its turn, so that the others go on.
  package var isAbsent = false
  package var claim: CallClaim

  /// For how long it has been under way, or has waited.
  package var nanoseconds: Int64
}

extension SlotState {
  /// Whether an ordinary call of one unit would find room now, under a limit and perhaps in a ramp.
  package func hasRoom(under limit: CallLimit, inRamp: Bool) -> Bool {
    let goesBefore = waiters.contains { waiter in
      waiter.claim.priority == .ordinary && !waiter.isGone && !waiter.isAbsent
    }
    let ramp = inRamp ? rampAllowance ?? RampAllowance(succeeded: 0) : nil
    return !goesBefore && limit.hasRoom(for: CallClaim(), beside: usage)
      && ramp?.permits(1, beside: usage.total) ?? true
  }
}

/// How long callers have waited for their turn, since the slots are in memory.
package struct SlotWaits: Sendable, Hashable {
  /// The longest wait of each count but the last, in nanoseconds.
  package static let bounds: [Int64] = [
    1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000,
    600_000_000_000,
  ]

  /// How many callers have begun after a wait of at most the bound, and longer than the one before.
  package var counts = [Int64](repeating: 0, count: bounds.count + 1)

  /// How long these have waited together.
  package var nanoseconds: Int64 = 0

  /// How many callers have left without a turn.
  package var abandoned: Int64 = 0

  static func index(of nanoseconds: Int64) -> Int {
    bounds.firstIndex { nanoseconds <= $0 } ?? bounds.count
  }
}

/// Waits that all processes count together.
extension SlotBlock {
  private func waitWord(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe header(.waits) + index
  }

  private static let sum = SlotWaits.bounds.count + 1
  private static let abandoned = sum + 1

  /// Counts a wait that is over.
  func noteWait(_ nanoseconds: Int64, hasBegun: Bool) {
    guard hasBegun else {
      unsafe sb_add(waitWord(Self.abandoned), 1)
      return
    }
    unsafe sb_add(waitWord(SlotWaits.index(of: nanoseconds)), 1)
    unsafe sb_add(waitWord(Self.sum), UInt64(clamping: nanoseconds))
  }

  /// Whether no count, and not the time, says more than its bound, which only damage does.
  var areWaitsIntact: Bool {
    (0...Self.abandoned).allSatisfy { unsafe sb_see(waitWord($0)) <= Self.mostOfWaits($0) }
  }

  private static func mostOfWaits(_ index: Int) -> UInt64 {
    index == sum ? SlotBound.nanoseconds : SlotBound.count
  }

  private var waits: SlotWaits {
    func number(_ index: Int) -> Int64 {
      SlotBound.number(unsafe sb_load(waitWord(index)), atMost: Self.mostOfWaits(index))
    }
    var waits = SlotWaits()
    waits.counts = waits.counts.indices.map { number($0) }
    waits.nanoseconds = number(Self.sum)
    waits.abandoned = number(Self.abandoned)
    return waits
  }
}

/// Looking without taking part.
extension SlotBlock {
  /// The calls under way, and the callers that wait.
  func state(at now: Int64) -> SlotState {
    var state = SlotState()
    state.waits = waits
    state.rampAllowance = rampAllowance
    state.rate = rateUse
    var gone: [UInt64: Bool] = [:]
    func participant(
      _ owner: UInt64, since: UInt64, _ units: UInt64, _ priority: CallPriority
    ) -> SlotParticipant {
      let isGone = gone[owner] ?? owners.isGone(owner)
      gone[owner] = isGone
      let claim = CallClaim(units: SlotBound.units(units), priority: priority)
      return SlotParticipant(
        process: owners.process(owner), isGone: isGone, claim: claim,
        nanoseconds: SlotBound.age(since: since, at: now))
    }
    for index in 0..<slotExtent {
      let word = word(ofSlot: index)
      if word.isFree { continue }
      let units = unsafe sb_load(line(index, .units))
      let call = unsafe participant(
        word.owner, since: sb_load(line(index, .since)), units, word.priority)
      if !call.isGone { state.usage[word.priority] += 1 }
      // Only the first slot of a call has its units.
      if units > 0 { state.calls.append(call) }
    }
    var waiters: [(place: WaitingPlace, waiter: SlotParticipant)] = []
    for index in 0..<placeExtent {
      let word = word(ofPlace: index)
      guard word.isWaiting || word.isAbsent, !word.isBrief else { continue }
      var waiter = unsafe participant(
        owner(ofWaiter: index), since: sb_load(waiter(index, .since)),
        sb_load(waiter(index, .units)), word.place.priority)
      waiter.isAbsent = word.isAbsent
      waiters.append((word.place, waiter))
    }
    state.waiters = waiters.sorted { $0.place < $1.place }.map(\.waiter)
    return state
  }
}

extension SlotPage {
  /// The calls under way on breakers, and the callers that wait, read from the file without taking part.
  ///
  /// - Returns: The known states, by the breaker's id. A breaker is missing if the file is missing,
  ///   if it cannot be read, or if it belongs to another store or boot: then the calls under way
  ///   are unknown.
  func states(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    guard !ids.isEmpty, let place,
      let file = SharedFile.opened(SlotFile.kind, place.path(of: SlotFile.kind), O_RDONLY)
    else { return [:] }
    defer { close(file.descriptor) }
    guard file.header == SharedFile.Header(store: place.store, boot: place.boot) else { return [:] }
    return Self.states(in: file, of: place.storePath, clock: clock) { _ in ids } ?? [:]
  }

  /// The calls and callers of the breakers that `choose` picks in an open file; nil if the file cannot be
  /// read.
  static func states(
    in file: SharedFile, of storePath: String, clock: StoreClock = .system,
    choose: ([Int64]) -> [Int64]
  ) -> [Int64: SlotState]? {
    guard let directory = SlotMapping(copying: file, 0, SlotFile.kind.bytesOfHeader) else {
      return nil
    }
    let indices = Self.indices(ofBreakersIn: directory)
    let ids = choose(Array(indices.keys))
    var states: [Int64: SlotState] = [:]
    // A copy has addresses for a whole block, so there are only so many of them at once.
    for start in stride(from: 0, to: ids.count, by: copiesAtOnce) {
      let some = ids[start..<min(ids.count, start + copiesAtOnce)]
      guard let found = Self.states(of: some, at: indices, in: file, of: storePath, clock) else {
        return nil
      }
      states.merge(found) { $1 }
    }
    return states
  }

  private static let copiesAtOnce = 256

  private static func states(
    of ids: ArraySlice<Int64>, at indices: [Int64: Int], in file: SharedFile,
    of storePath: String, _ clock: StoreClock
  ) -> [Int64: SlotState]? {
    let copies = ids.compactMap { id -> (id: Int64, words: SlotMapping, offset: Int)? in
      guard let offset = indices[id].map(SlotFile.offset(ofBlock:)),
        let words = SlotMapping(copyingBlockAt: offset, of: file)
      else { return nil }
      return (id, words, offset)
    }
    // After the blocks, because owners are entered before they take anything (rule of order 26).
    guard let head = SlotMapping(copying: file, 0, SlotFile.kind.bytesOfHeader) else { return nil }
    let owners = SlotOwners(head, judge: OwnerJudge(of: storePath)) { ProcessTable.current() }
    let now = sb_coarse_nanoseconds()
    // Processes that found no entry have calls under way that are unknown.
    if owners.isFull { return [:] }
    // A breaker that is not in the file has not had a call since the file was made, if it could be there.
    let missing = isFull(head) ? [] : ids.filter { indices[$0] == nil }
    var states = Dictionary(missing.map { ($0, SlotState()) }, uniquingKeysWith: { $1 })
    // No call begins in a copy, so it needs no number of its own.
    for (id, words, offset) in copies {
      let block = SlotBlock(words, owners, of: id, number: 0, clock: clock)
      block.copyRing(of: file, at: offset)
      states[id] = block.state(at: now)
    }
    return states
  }

  /// The breakers that have blocks in a file, with the indices of these.
  private static func indices(ofBreakersIn head: SlotMapping) -> [Int64: Int] {
    var indices: [Int64: Int] = [:]
    for index in (0..<SlotFile.blocks).reversed() {
      let id = entry(index, of: head)
      if id != 0 { indices[id] = index }
    }
    return indices
  }
}

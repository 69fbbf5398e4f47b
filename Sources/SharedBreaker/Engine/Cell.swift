internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Synchronization

/// What this process knows of one breaker.
final class Known: Sendable {
  let breaker: StoredBreaker
  let agreed: AgreedPolicy

  /// Whether the breaker is in the store; false before its first call.
  let exists: Bool

  /// Where successes are counted for all processes; nil if the breaker has no such place.
  let counters: Counters?

  init(_ breaker: StoredBreaker, exists: Bool, counters: Counters? = nil) {
    self.breaker = breaker
    self.exists = exists
    self.counters = counters
    agreed = breaker.agreedPolicy
  }

  var policy: BreakerPolicy { agreed.policy }

  /// The record as it stands at an instant.
  func record(at now: Moment, isGone: (ProcessIdentity) -> Bool) -> BreakerRecord {
    breaker.record.settled(at: now, policy: policy, isGone: isGone)
  }

  var word: CellWord {
    // The first call makes the breaker, so that others can find it.
    guard exists else { return .unknown }
    let record = breaker.record
    let permits =
      record.state == .closed && record.mode.mode.judges
      && record.generation <= CellWord.latestGeneration
    let hasWindow = !CallWindow.none.fits(policy)
    let countsOnly = permits && record.streakStartedAt == nil && (!hasWindow || counters != nil)
    let rejects = record.state == .open && record.mode.mode == .automatic
    let flags =
      (permits ? CellWord.permits : 0) | (countsOnly ? CellWord.countsOnly : 0)
      | (policy.slowAfter != nil ? CellWord.measures : 0)
      | (policy.window != nil ? CellWord.marks : 0) | (rejects ? CellWord.rejects : 0)
    return CellWord(flags: flags, of: breaker)
  }
}

extension BreakerMode {
  /// Whether the state decides, or would decide.
  fileprivate var judges: Bool {
    switch self {
    case .automatic, .observe: true
    case .forcedOpen, .forcedClosed: false
    }
  }
}

/// This process's side of one breaker.
@safe final class Cell: Sendable {
  // What a healthy call reads comes first, to lie close together.

  // Written before the fingerprint that vouches for them, and read after it.
  private let bits = Atomic<UInt64>(0)

  /// Where this process counts: in the shared page, or else for itself.
  private nonisolated(unsafe) let counters = unsafe Atomic<UnsafeMutablePointer<UInt64>?>(nil)

  /// When a breaker that rejects calls is due for a probe.
  let openUntil = Atomic<Int64>(0)

  /// The nanoseconds that make a call slow.
  let slowAfter = Atomic<Int64>(.max)

  /// Up to when, on the coarse clock, the bucket of now is known to be marked.
  let markedUntil = Atomic<Int64>(0)

  let name: String

  // Under the engine's lock for cells.

  /// What was read last; nil of a healthy breaker to which this process has written nothing.
  nonisolated(unsafe) private(set) var known: Known?
  nonisolated(unsafe) private(set) var revision: Int64 = .min
  nonisolated(unsafe) private var marks: BucketMarks?
  nonisolated(unsafe) private var agreed: AgreedPolicy?

  /// What could not be counted in the shared page; kept once it was used.
  nonisolated(unsafe) private var own: UnsafeMutablePointer<UInt64>?
  nonisolated(unsafe) var declared: String?

  /// The revision since which the store has what is declared here; nil if it has yet to be brought.
  nonisolated(unsafe) var declaredAt: Int64?
  nonisolated(unsafe) var isOverruled = false

  /// Whether the engine looks after what is yet to be written.
  nonisolated(unsafe) var isNoted = false
  nonisolated(unsafe) private var quietRounds: UInt8 = 0

  init(name: String) { self.name = name }

  deinit { unsafe own.map { unsafe Counters(at: $0).deallocate() } }

  var word: CellWord { CellWord(bits: bits.load(ordering: .acquiring)) }
}

/// Learning, under the engine's lock for cells.
extension Cell {
  /// Takes over what was read; a healthy breaker's record is only kept if it will be needed.
  func learn(_ known: Known, keeping: Bool) {
    let word = known.word
    let isPlain = word.has(CellWord.countsOnly)
    unsafe self.known = keeping || !isPlain ? known : nil
    unsafe revision = known.breaker.revision
    openUntil.store(known.breaker.record.openUntil?.nanoseconds ?? 0, ordering: .relaxed)
    slowAfter.store(known.policy.slowAfter?.inNanoseconds ?? .max, ordering: .relaxed)
    unsafe agreed = known.agreed
    unsafe marks = known.counters?.marks
    markedUntil.store(0, ordering: .relaxed)
    unsafe counters.store(known.counters?.address ?? ownAddress(), ordering: .releasing)
    bits.store(word.bits, ordering: .releasing)
  }

  /// Whether what is declared here is yet to be brought to the store.
  var isUndeclared: Bool { unsafe declared != nil && declaredAt == nil }

  /// The words of code that were in force when the breaker was last read.
  var wordsInForce: String? { unsafe agreed?.codeWords }

  /// The record of a healthy breaker as far as it is kept.
  var remembered: StoredBreaker? {
    guard unsafe agreed != nil else { return nil }
    var breaker = StoredBreaker(id: 0, name: name, createdAtMilliseconds: 0)
    breaker.record.generation = max(1, word.generation)
    unsafe breaker.codeWords = agreed?.codeWords
    unsafe breaker.operatorWords = agreed?.operatorWords
    unsafe breaker.agreed.value = agreed
    return breaker
  }

  /// Knows nothing any more that can be relied on.
  func forget() {
    unsafe known = nil
    unsafe revision = .min
    // The revisions of another file may be lower.
    if unsafe declaredAt != nil { unsafe declaredAt = .min }
    bits.store(CellWord.unknown.bits, ordering: .releasing)
  }

  private func ownAddress() -> UnsafeMutablePointer<UInt64> {
    if let own = unsafe own { return unsafe own }
    let made = Counters.allocate()
    unsafe own = made.address
    return unsafe made.address
  }

  /// Marks the bucket of now, and answers how long it lasts from then on.
  func beginBucket(at now: () -> Instant) -> Int64 {
    guard let address = unsafe counters.load(ordering: .acquiring),
      let window = unsafe agreed?.policy.window
    else { return 0 }
    return unsafe Counters(at: address, marks: marks).beginBucket(
      ofWindow: window.inNanoseconds, at: now)
  }

  /// The counts of this process alone; the caller writes them, or counts them again.
  func takePending() -> Counted { unsafe own.map { unsafe Counters(at: $0).take() } ?? Counted() }

  /// The counts of this process alone, left where they are.
  var pending: Counted { unsafe own.map { unsafe Counters(at: $0).read() } ?? Counted() }

  /// Whether there may be anything to write.
  var mayHaveToWrite: Bool {
    unsafe isUndeclared
      || own != nil && (counters.load(ordering: .relaxed) == own || !pending.isZero)
  }

  /// Begins to ask anew.
  func note() {
    unsafe isNoted = true
    unsafe quietRounds = 0
  }

  /// Whether there was nothing to write the last two times that this was asked.
  var hasWrittenAll: Bool {
    let isQuiet = !mayHaveToWrite
    unsafe quietRounds = isQuiet ? min(quietRounds + 1, 2) : 0
    return unsafe quietRounds >= 2
  }

  /// Counts a rejection for a later write.
  func keepRejection() {
    var counted = Counted()
    counted.rejections = 1
    keep(counted)
  }

  /// Counts what cannot be written now for a later write.
  func keep(_ pending: Counted) {
    if !pending.isZero { unsafe Counters(at: ownAddress()).add(pending) }
  }
}

/// Counting, from any thread.
extension Cell {
  func countSuccess() {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe sb_add(address.advanced(by: SB_SUCCESSES), 1)
    }
  }

  func countRejection() {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe sb_add(address.advanced(by: SB_REJECTIONS), 1)
    }
  }

  func countOne(_ count: WritableKeyPath<Counted, Int64>) {
    var counted = Counted()
    counted[keyPath: count] = 1
    self.count(counted)
  }

  /// Counts in the shared page, or else in what this process has yet to write.
  func count(_ counted: Counted) {
    if let address = unsafe counters.load(ordering: .acquiring) {
      unsafe Counters(at: address).add(counted)
    }
  }
}

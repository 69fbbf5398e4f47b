package import BreakerCore
internal import Synchronization

/// The slots and the queue of one breaker, wherever its store keeps them.
package protocol CallSlots: AnyObject, Sendable {
  /// Distinguishes these slots from all others that this process has used.
  ///
  /// All stores of this process that use one file know a breaker's slots by the same number.
  var number: UInt64 { get }

  /// Takes room for one call at once: no lock, and nobody is looked for; nil if that does not do.
  func take(_ claim: CallClaim, _ terms: SlotTerms) -> HeldSlot?

  /// Asks for room for one call.
  ///
  /// - Parameters:
  ///   - claim: How much the call takes, and its priority.
  ///   - terms: The limit that the caller knows.
  ///   - wait: How long the caller waits for its turn; nil if not at all.
  /// - Returns: The slots, which the caller has to give back by `end`, or why there are none.
  func enter(_ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait?) -> SlotEntry

  /// Lets a call wait for its turn without a thread; what it is told otherwise comes at once.
  ///
  /// - Parameters:
  ///   - claim: How much the call takes, and its priority.
  ///   - terms: The limit that the caller knows.
  ///   - wait: How long the caller waits for its turn.
  ///   - answer: Called once with what the caller is told, from any thread, unless the call was
  ///     answered at once.
  /// - Returns: The answer, or how the caller gives up.
  func queue(
    _ claim: CallClaim, _ terms: SlotTerms, wait: SlotWait,
    _ answer: @escaping @Sendable (SlotEntry) -> Void
  ) -> QueuedCall

  /// Ends a call; false if it has ended before, or belongs to another process.
  @discardableResult func end(_ held: HeldSlot) -> Bool

  /// Whether a call of this process has not ended yet.
  func isUnderWay(_ held: HeldSlot) -> Bool

  /// Whether a call of another process has not ended yet, and neither has the process.
  func isUnderWay(_ inherited: InheritedSlot) -> Bool

  /// Whether a call of another process has ended for certain; false if it has its room in another file.
  func hasEnded(_ inherited: InheritedSlot) -> Bool

  /// A call as other processes can name it; nil if they cannot.
  func inheritance(of held: HeldSlot) -> InheritedSlot?

  /// Puts terms in force, unless later ones are; false then.
  @discardableResult func adopt(_ terms: SlotTerms) -> Bool

  /// Puts terms in force for certain: nothing later is in the store.
  func impose(_ terms: SlotTerms)

  /// The limit in force, as terms that never replace others; nil if it was damaged, or before the first
  /// call.
  func termsInForce(places: Int) -> SlotTerms?

  /// Wakes everybody who waits, so that they ask whether they still want to.
  func wakeAll()

  /// Frees what owners have that have ended, from time to time.
  func lookAround()

  /// Frees what owners have that ended before this process came.
  func lookOnArrival()

  /// Whether calls were found lost of which it is not known that the breaker has counted them.
  var hasUncountedLosses: Bool { get }

  /// The calls that were found lost, and that a breaker has yet to count.
  ///
  /// Only ask in a transaction on the breaker that counts them, so that nobody else does so meanwhile.
  ///
  /// - Parameters:
  ///   - breaker: The row of the breaker.
  ///   - total: How many lost calls it has counted.
  /// - Returns: What to count now; nil if these are not the slots of that breaker.
  func uncountedLosses(of breaker: Int64, in total: Int64) -> LostCalls?

  /// Notes that a transaction was committed in which the breaker has counted these calls.
  func noteCounted(_ lost: LostCalls)

  /// How many units are under way.
  var usage: SlotUsage { get }

  /// Whether other processes see the calls of this one; not if too many take part.
  var areCallsSeen: Bool { get }
}

extension CallSlots {
  package func enter(_ claim: CallClaim, _ terms: SlotTerms) -> SlotEntry {
    enter(claim, terms, wait: nil)
  }
}

/// The limit under which a call is made, as the policy of its breaker has it.
package struct SlotTerms: Sendable, Hashable {
  /// The most units that can be under way, and the most callers that can wait.
  package static let most = SlotFile.slotsOfBlock

  package let limit: CallLimit

  /// How many callers may wait.
  package let places: Int

  /// The revision of the policy: later terms take the place of earlier ones.
  package var revision: Int64

  /// The limit as it is in the gate.
  package let shape: UInt64

  package init(_ limit: CallLimit, places: Int = 0, revision: Int64) {
    self.limit = limit
    self.places = min(places, SlotFile.placesOfBlock)
    self.revision = revision
    shape = GateWord(limit).bits
  }
}

/// What a call was given, in one word: it keeps it until it ends.
@frozen @usableFromInline package struct HeldSlot: Sendable, Hashable {
  // From the lowest bit on: 1, the priority, 10 bits of the index, 20 of the block, 32 of the serial.
  @usableFromInline package let bits: UInt64

  private static let background: UInt64 = 2
  private static let indexShift: UInt64 = 2
  private static let blockShift: UInt64 = 12
  private static let serialShift: UInt64 = 32
  private static let indexMask = UInt64(SlotFile.slotsOfBlock - 1)

  /// The first slot of a call, and the number of times that it was taken.
  init(_ index: Int, _ priority: CallPriority, serial: UInt32, of block: UInt64) {
    bits =
      1 | Self.bits(of: priority) | UInt64(index) << Self.indexShift
      | block << Self.blockShift | UInt64(serial) << Self.serialShift
  }

  private static func bits(of priority: CallPriority) -> UInt64 {
    switch priority {
    case .ordinary: 0
    case .background: background
    }
  }

  /// A call that has a number, and no slot by itself.
  init(number: Int64, of block: UInt64) {
    let number = UInt64(bitPattern: number)
    self.init(
      Int(number & Self.indexMask), .ordinary,
      serial: UInt32(truncatingIfNeeded: number >> 10), of: block)
  }

  /// What its bits stand for; nil if they stand for nothing.
  @inlinable package init?(bits: UInt64) {
    guard bits & 1 != 0 else { return nil }
    self.bits = bits
  }

  /// Whether the bits of two calls name the same slots of this process, those of one breaker.
  package static func isOfSameSlots(_ one: UInt64, _ other: UInt64) -> Bool {
    (one ^ other) >> blockShift & SlotNumber.mask == 0
  }

  var index: Int { Int(bits >> Self.indexShift & Self.indexMask) }
  var priority: CallPriority { bits & Self.background != 0 ? .background : .ordinary }
  var serial: UInt32 { UInt32(bits >> Self.serialShift) }

  /// The number of a call that has no slot by itself.
  var number: Int64 { Int64(serial) << 10 | Int64(index) }

  /// The number of the slots that it was taken from.
  package var block: UInt64 { bits >> Self.blockShift & SlotNumber.mask }
}

/// The room of a call as a process can name it that was started inside of the call.
package struct InheritedSlot: Sendable, Hashable, LosslessStringConvertible {
  /// The file of the slots.
  let file: FileIdentity
  let breaker: Int64
  let owner: UInt64
  let index: Int
  let serial: UInt32

  init(in file: FileIdentity, breaker: Int64, owner: UInt64, index: Int, serial: UInt32) {
    self.file = file
    self.breaker = breaker
    self.owner = owner
    self.index = index
    self.serial = serial
  }

  package init?(_ description: String) {
    let parts = description.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 6, let device = UInt64(parts[0]), let inode = UInt64(parts[1]),
      let breaker = Int64(parts[2]), let owner = UInt64(parts[3]),
      let index = Int(parts[4]), (0..<SlotFile.slotsOfBlock).contains(index),
      let serial = UInt32(parts[5])
    else { return nil }
    let file = FileIdentity(device: device, inode: inode)
    self.init(in: file, breaker: breaker, owner: owner, index: index, serial: serial)
  }

  package var description: String {
    "\(file.device).\(file.inode).\(breaker).\(owner).\(index).\(serial)"
  }
}

/// The numbers of slots in this process, and in those that are forked from it.
enum SlotNumber {
  static let mask: UInt64 = 0xF_FFFF
  private static let last = Atomic<UInt64>(0)

  static func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue & mask }
}

/// What becomes of a call that may wait without a thread.
package enum QueuedCall: Sendable {
  case answered(SlotEntry)

  /// It waits. The function gives its place up, and then it is told that there is no room.
  case waiting(giveUp: @Sendable () -> Void)
}

/// What a caller is told.
package enum SlotEntry: Sendable, Hashable {
  case begun(HeldSlot)

  /// There is no room, and no place to wait, or the time for the wait is over.
  case busy

  /// The caller was asked whether it still wants to wait, and does not.
  case unwanted

  /// Later terms are in force: the caller has to look at the policy again.
  case outdated

  /// The table of owners is full.
  case unknown

  var hasBegun: Bool { if case .begun = self { true } else { false } }
}

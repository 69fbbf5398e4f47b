internal import BreakerCore
internal import CHost
internal import Glibc

/// The file of the calls that are under way on breakers with a limit, and of the callers that wait.
///
/// It begins with a table of the owners and one of the breakers. Each breaker has a block: a line for each
/// slot and one for each place, then the words of the places and the gate, and behind them the instants of
/// a rate. A block has addresses for all that a policy may ask for, and room on the disk for what calls have
/// needed. A file is only good for the calls under way, so it is never taken over by another boot.
enum SlotFile {
  static let kind = SharedFile.Kind(
    // "SBSLOTS" and a zero.
    suffix: "-slots", magic: 0x5342_534C_4F54_5300, layout: 1, bytesOfHeader: 4 * largestPage)

  /// Each part that is mapped begins at a multiple of the largest page that a processor may have.
  private static let largestPage = 65_536

  /// The breakers with a limit that a store can have.
  static let blocks = 8_192
  static let offsetOfBlocks = 3 * largestPage

  /// The processes that can take part at once.
  static let owners = 2_048
  static let offsetOfOwners = 16_384
  static let offsetOfOwnerLines = largestPage

  /// A bell for each owner, at which a process waits for all callers that have no thread.
  static let offsetOfBells = 32_768

  static let slotsOfBlock = 1_024
  static let placesOfBlock = 1_024
  static let bytesOfLine = 64

  /// How many slots, and how many places, have room on the disk from the beginning.
  static let linesAtFirst = 64

  static let bytesOfBlock = 3 * largestPage
  static let offsetOfSlots = 0
  static let offsetOfWaiters = largestPage

  /// The gate and the words beside it end the block, so that no block ends behind the end of the file.
  static let offsetOfHeader = bytesOfBlock - bytesOfBlockHeader
  static let bytesOfBlockHeader = 512

  /// The words of the places end where the header begins, with that of the first place: on its page, if they are few.
  static let offsetOfPlaces = offsetOfHeader - placesOfBlock * 8

  /// The instants of a rate, of which only as many have room on the disk as the rate needs.
  static let offsetOfRing = bytesOfBlock
  static let bytesOfBlockWithRing = bytesOfBlock + CallRate.most * 8

  static func offset(ofBlock index: Int) -> Int {
    kind.bytesOfHeader + index * bytesOfBlockWithRing
  }
}

/// A part of the file in memory, or memory of this process alone that is used in the same way.
///
/// Unchecked because several processes change the memory, all of them by atomic operations.
@safe final class SlotMapping: @unchecked Sendable {
  let address: UnsafeMutableRawPointer

  /// The file that it is a part of; nil if no file is behind it.
  let file: FileIdentity?
  private let length: Int

  /// A part of a file, which gets room on the disk unless it `isReserved`; then no more of it may be used than has room.
  init?(_ file: SharedFile, _ offset: Int, _ length: Int, isReserved: Bool = false) {
    guard isReserved || file.reserve(offset, length),
      let address = unsafe file.map(offset, length)
    else { return nil }
    unsafe self.address = address
    self.file = file.identity
    self.length = length
  }

  /// A copy of a part as it is now, which is never more than looked at; nil if it cannot be read whole.
  convenience init?(copying file: SharedFile, _ offset: Int, _ length: Int) {
    self.init(inMemory: length)
    guard copy(file, from: offset, to: 0, length) else { return nil }
  }

  /// A copy of a block, with the lines that may have been in use, and room for the instants of a rate; nil if it cannot be
  /// read whole.
  convenience init?(copyingBlockAt offset: Int, of file: SharedFile) {
    self.init(inMemory: SlotFile.bytesOfBlockWithRing)
    let header = SlotFile.offsetOfHeader
    func copy(_ part: Int, _ length: Int) -> Bool {
      self.copy(file, from: offset + part, to: part, length)
    }
    func extent(_ word: SlotBlock.HeaderWord, atMost most: Int) -> Int? {
      guard copy(header, SlotFile.bytesOfBlockHeader) else { return nil }
      return min(most, Int(clamping: unsafe sb_see(self.word(header + word.rawValue * 8))))
    }
    // The places first: a caller that waits takes its slot before it leaves its place.
    guard let places = extent(.places, atMost: SlotFile.placesOfBlock),
      copy(header - places * 8, places * 8),
      copy(SlotFile.offsetOfWaiters, places * SlotFile.bytesOfLine),
      let slots = extent(.slots, atMost: SlotFile.slotsOfBlock),
      copy(SlotFile.offsetOfSlots, slots * SlotFile.bytesOfLine)
    else { return nil }
  }

  /// Memory of this process alone, of which the child of a fork has a copy; nil if the system has none left.
  init?(inMemory length: Int) {
    let address = unsafe mmap(
      nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    guard let address = unsafe address, unsafe address != MAP_FAILED else { return nil }
    // Calls use a few pages of each part, and a huge page would take the room of all others too.
    unsafe madvise(address, length, MADV_NOHUGEPAGE)
    unsafe self.address = address
    file = nil
    self.length = length
  }

  /// Reads a part of a file into memory of this process alone; false if the file ends before.
  func copy(_ file: SharedFile, from offset: Int, to own: Int, _ count: Int) -> Bool {
    unsafe pread(file.descriptor, address + own, count, offset) == count
  }

  deinit { unsafe munmap(address, length) }

  /// Releases the file's disk space: from now on this is memory of this process alone.
  func beEmpty() { _ = unsafe sb_empty_mapping(address, length) }

  /// A word of the part, by its offset in bytes.
  @inline(__always) func word(_ offset: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe (address + offset).assumingMemoryBound(to: UInt64.self)
  }
}

/// The words of a block.
extension SlotBlock {
  /// Words of the first lines; those that every call reads are on a line that is seldom written.
  enum HeaderWord: Int {
    case gate = 0
    case revision = 1

    /// How many slots, and how many places, may be in use, because they have room on the disk.
    case slots = 2
    case places = 3
    case tickets = 8

    /// When a process last looked thoroughly for owners that have ended, on the coarse clock.
    case lookedAt = 11

    /// How many calls were found lost, as far as that was made known; how many of these the breaker
    /// has counted for certain; its total without them, shifted by one, and a one; and the last
    /// owner.
    case losses = 12
    case countedLosses = 13
    case lossBase = 14
    case lastLost = 15

    /// When a waiter last looked for owners that have ended, on the coarse clock.
    case watchedAt = 32

    /// The ramp after a close or a hold; see `RampWord`.
    case ramp = 33

    /// The rate in force; see `RateWord`.
    case rate = 34

    /// How many entries of the ring of instants have ever been in use.
    case ringExtent = 35

    /// Where the next caller looks first for an instant that it may replace; on a line of its own, as each call
    /// under a rate writes it.
    case ringCursor = 40

    /// How long callers have waited: a count for each bound, and two words more.
    case waits = 16
  }

  enum LineWord: Int {
    case word = 0
    case since
    case units
    case next
    case serial
    case loss

    /// The owner of the call that was found lost here last, and the word of the losses when the breaker
    /// counted it.
    case loser
    case countedLoss
  }

  enum WaiterWord: Int {
    case bell = 0
    case owner
    case since
    case units

    /// The process whose bell is rung instead of that of the place, counted from 1; 0 for none.
    case ringer

    /// When the caller was last awake, and since when it owes an answer to another one, on the coarse clock; 0 if it owes
    /// none.
    case awake
    case called

    /// Until when the caller sleeps if it is not woken, because that is its turn under a rate, on the monotonic clock; 0
    /// if it does not know.
    case turn
  }

  @inline(__always) func header(_ word: HeaderWord) -> UnsafeMutablePointer<UInt64> {
    unsafe self.word(SlotFile.offsetOfHeader &+ word.rawValue &* 8)
  }

  @inline(__always) func line(_ index: Int, _ word: LineWord) -> UnsafeMutablePointer<UInt64> {
    // No index is so large that this could overflow.
    unsafe self.word(
      SlotFile.offsetOfSlots &+ index &* SlotFile.bytesOfLine &+ word.rawValue &* 8)
  }

  /// A word of the block, by its offset in bytes.
  @inline(__always) private func word(_ offset: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe (address + offset).assumingMemoryBound(to: UInt64.self)
  }

  @inline(__always) func slot(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe line(index, .word)
  }

  func place(_ index: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(SlotFile.offsetOfHeader - (index + 1) * 8)
  }

  func waiter(_ index: Int, _ word: WaiterWord) -> UnsafeMutablePointer<UInt64> {
    unsafe mapping.word(
      SlotFile.offsetOfWaiters + index * SlotFile.bytesOfLine + word.rawValue * 8)
  }

  @inline(__always) var gate: GateWord { GateWord(bits: unsafe sb_see(header(.gate))) }

  @inline(__always) func word(ofSlot index: Int) -> SlotWord {
    SlotWord(bits: unsafe sb_see(slot(index)))
  }
  func word(ofPlace index: Int) -> PlaceWord { PlaceWord(bits: unsafe sb_see(place(index))) }

  @inline(__always) var slotExtent: Int {
    min(SlotFile.slotsOfBlock, Int(clamping: unsafe sb_see(header(.slots))))
  }

  var placeExtent: Int {
    min(SlotFile.placesOfBlock, Int(clamping: unsafe sb_see(header(.places))))
  }

  /// Notes that so many may be in use.
  func raise(_ word: HeaderWord, to count: Int) { unsafe Self.raise(header(word), to: count) }

  static func raise(_ word: UnsafeMutablePointer<UInt64>, to count: Int) {
    while true {
      let found = unsafe sb_see(word)
      if found >= UInt64(count) { return }
      if unsafe sb_decide(word, found, UInt64(count)) != 0 { return }
    }
  }
}

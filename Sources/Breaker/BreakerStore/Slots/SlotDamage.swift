internal import BreakerCore
internal import CHost

/// The damage in a file of slots: words that no process writes.
///
/// Only rules that hold at every moment are checked, and each finding is checked twice, because other processes
/// change the file while it is read.
struct SlotDamage: Hashable {
  /// Whether the table of the breakers, or that of the owners, is damaged.
  var isInTables = false

  /// The blocks that are damaged, by their indices.
  var blocks: Set<Int> = []

  var isNone: Bool { !isInTables && blocks.isEmpty }

  /// The damage in an open file; nil if the file cannot be read whole.
  static func found(in file: SharedFile) -> SlotDamage? {
    guard let first = look(at: file) else { return nil }
    guard !first.isNone, let second = look(at: file) else { return first }
    return SlotDamage(
      isInTables: first.isInTables && second.isInTables,
      blocks: first.blocks.intersection(second.blocks))
  }

  private static func look(at file: SharedFile) -> SlotDamage? {
    guard let head = SlotMapping(copying: file, 0, SlotFile.kind.bytesOfHeader) else { return nil }
    var damage = SlotDamage()
    let owners = SlotOwners(head, judge: OwnerJudge(of: "")) { ProcessTable.current() }
    damage.isInTables = !owners.isIntact
    for index in 0..<SlotFile.blocks {
      let id = unsafe Int64(bitPattern: sb_see(head.word(SlotFile.offsetOfBlocks + index * 8)))
      if id == 0 { continue }
      guard id > 0 else {
        damage.isInTables = true
        continue
      }
      let offset = SlotFile.offset(ofBlock: index)
      guard let part = SlotMapping(copying: file, offset, SlotFile.bytesOfBlock) else { return nil }
      let block = SlotBlock(part, owners, of: id, number: 0)
      if !block.isIntact { damage.blocks.insert(index) }
    }
    return damage
  }
}

extension SlotBlock {
  /// Whether each word is one that a process can have written.
  fileprivate var isIntact: Bool {
    areCountsIntact && (0..<SlotFile.slotsOfBlock).allSatisfy { isSlotIntact($0) }
      && (0..<SlotFile.placesOfBlock).allSatisfy { isPlaceIntact($0) }
  }

  private var areCountsIntact: Bool {
    unsafe (gate.bits == 0 || gate.limit != nil)
      && sb_see(header(.slots)) <= UInt64(SlotFile.slotsOfBlock)
      && sb_see(header(.places)) <= UInt64(SlotFile.placesOfBlock)
      && sb_see(header(.ringExtent)) <= UInt64(CallRate.most)
      && sb_see(header(.losses)) <= SlotBound.count
      && sb_see(header(.countedLosses)) <= SlotBound.count
      && sb_see(header(.lastLost)) <= SlotBound.owner
      && areWaitsIntact
  }

  private func isSlotIntact(_ index: Int) -> Bool {
    let word = word(ofSlot: index)
    guard word.isFree || (word.isOfKnownKind && index < slotExtent) else { return false }
    return unsafe sb_see(line(index, .units)) <= UInt64(SlotFile.slotsOfBlock)
      && sb_see(line(index, .next)) <= UInt64(SlotFile.slotsOfBlock)
      && sb_see(line(index, .loser)) <= SlotBound.owner && lostCalls(ofSlot: index) != nil
  }

  private func isPlaceIntact(_ index: Int) -> Bool {
    let word = word(ofPlace: index)
    guard !word.isFree else { return true }
    return unsafe word.isOfKnownKind && index < placeExtent
      && sb_see(waiter(index, .ringer)) <= UInt64(SlotFile.owners)
  }
}

internal import CHost
internal import Glibc

/// Which block is that of which breaker.
///
/// The table changes only under the lock of the store, so no breaker ever has two blocks.
extension SlotPage {
  /// The index of a breaker's block, which it gets if it has none; nil if there is none left, or no room for it on
  /// the disk.
  func index(
    ofBreaker id: Int64, in head: SlotMapping, of file: SharedFile, at place: SharedFile.Place?
  ) -> Int? {
    if let known = Self.knownIndex(ofBreaker: id, in: head) { return known }
    guard let place else { return nil }
    do throws(StoreError) {
      return try StoreLock.held(place.storePath, atMost: Self.patience) {
        _ throws(StoreError) -> Int? in
        if let known = Self.knownIndex(ofBreaker: id, in: head) { return known }
        guard let index = (0..<SlotFile.blocks).first(where: { Self.entry($0, of: head) == 0 }),
          // An entry has its space from the beginning, so a file that ends before it was cut off.
          Self.reserve(index, in: file)
        else { return nil }
        unsafe sb_tell(Self.word(index, of: head), UInt64(bitPattern: id))
        return index
      }
    } catch {
      return nil
    }
  }

  /// Frees the blocks of breakers that were deleted, and of which no call is under way.
  ///
  /// - Parameters:
  ///   - id: A breaker that exists. No breaker gets the number of an earlier one, so those before it that are not
  ///     among the `living` were deleted.
  ///   - living: The breakers that exist now.
  func releaseBlocks(before id: Int64, except living: Set<Int64>) {
    releasing { file, head, owners in
      var released = 0
      for index in 0..<SlotFile.blocks where released < Self.mostReleased {
        let found = Self.entry(index, of: head)
        // No breaker has a negative number: the entry was damaged.
        guard found != 0, found < id, !living.contains(found),
          let part = Self.mapping(of: index, in: file)
        else { continue }
        let block = SlotBlock(part, owners, of: found, number: 0)
        if block.isLeft, block.clearRing(of: file, at: SlotFile.offset(ofBlock: index)) {
          released += 1
          block.clear()
          unsafe sb_tell(Self.word(index, of: head), 0)
        }
      }
    }
  }

  /// The addresses of a block, whose first lines have room on the disk.
  static func mapping(of index: Int, in file: SharedFile) -> SlotMapping? {
    guard reserve(index, in: file) else { return nil }
    return SlotMapping(
      file, SlotFile.offset(ofBlock: index), SlotFile.bytesOfBlockWithRing, isReserved: true)
  }

  /// Reserves room for the header of a block and the words of the first places, and for their lines and those of the
  /// first slots.
  private static func reserve(_ index: Int, in file: SharedFile) -> Bool {
    let block = SlotFile.offset(ofBlock: index)
    let lines = SlotFile.linesAtFirst * SlotFile.bytesOfLine
    let words = SlotFile.linesAtFirst * 8
    return file.reserve(
      block + SlotFile.offsetOfHeader - words, words + SlotFile.bytesOfBlockHeader)
      && file.reserve(block + SlotFile.offsetOfSlots, lines)
      && file.reserve(block + SlotFile.offsetOfWaiters, lines)
  }

  /// How many blocks are freed at once: looking at one takes its room on the disk.
  private static let mostReleased = 64

  /// Whether each block is that of some breaker.
  static func isFull(_ head: SlotMapping) -> Bool {
    (0..<SlotFile.blocks).allSatisfy { entry($0, of: head) != 0 }
  }

  static func entry(_ index: Int, of head: SlotMapping) -> Int64 {
    unsafe Int64(bitPattern: sb_see(word(index, of: head)))
  }

  private static func word(_ index: Int, of head: SlotMapping) -> UnsafeMutablePointer<UInt64> {
    unsafe head.word(SlotFile.offsetOfBlocks + index * 8)
  }
}

extension SlotBlock {
  /// Whether no living owner has a slot or a place.
  fileprivate var isLeft: Bool {
    (0..<slotExtent).allSatisfy { index in
      let word = word(ofSlot: index)
      return word.isFree || owners.isGone(word.owner)
    }
      && (0..<placeExtent).allSatisfy { index in
        let word = word(ofPlace: index)
        return word.isFree || owners.isGone(word.taker ?? owner(ofWaiter: index))
      }
  }

  /// Makes the block as if it had never been used, except that the serials go on.
  fileprivate func clear() {
    for index in 0..<slotExtent {
      for word in [LineWord.word, .since, .units, .next, .loss, .loser, .countedLoss] {
        unsafe sb_tell(line(index, word), 0)
      }
    }
    for index in 0..<placeExtent { unsafe sb_tell(place(index), 0) }
    for offset in stride(from: 0, to: SlotFile.bytesOfBlockHeader, by: 8) {
      unsafe sb_tell(mapping.word(SlotFile.offsetOfHeader + offset), 0)
    }
  }

  /// Keeps in memory what calls have used so far, the most important first.
  func keepInMemory(by hot: inout HotPages) {
    let ofLines = { (extent: Int) in max(1, extent) * SlotFile.bytesOfLine }
    let words = max(1, placeExtent) * 8
    unsafe hot.keep(
      address + SlotFile.offsetOfHeader - words, words + SlotFile.bytesOfBlockHeader)
    unsafe hot.keep(address + SlotFile.offsetOfSlots, ofLines(slotExtent))
    unsafe hot.keep(address + SlotFile.offsetOfWaiters, ofLines(placeExtent))
    if ringCapacity > 0 { unsafe hot.keep(address + SlotFile.offsetOfRing, ringCapacity * 8) }
  }
}

extension SlotPage {
  /// The room that a file of slots lacks, and what comes of it; nil if it lacks none.
  static func shortage(in file: SharedFile, of storePath: String) -> (found: String, means: String)?
  {
    guard let head = SlotMapping(copying: file, 0, SlotFile.kind.bytesOfHeader) else { return nil }
    let owners = SlotOwners(head, judge: OwnerJudge(of: storePath)) { ProcessTable.current() }
    if owners.isFull {
      return (
        "\(SlotFile.owners) processes take part in limits, and no more can",
        "calls of other processes are under no limit until one of these has ended"
      )
    }
    guard isFull(head) else { return nil }
    return (
      "\(SlotFile.blocks) breakers have slots, and no more can",
      "another one takes those of a breaker that was deleted; if there is none, each process limits its calls"
        + " apart from all others"
    )
  }
}

/// Reserves room on the disk for more of a block, as long as a call may need it.
///
/// It opens the file only briefly, and no thread forks meanwhile, because every child would inherit the descriptor.
final class SlotRoom: Sendable {
  private let turn = Guarded(())

  /// Reserves room for a part of a file; false if there is none, or if another file is at the path now.
  func reserve(
    _ offset: Int, _ length: Int, inFile identity: FileIdentity, at path: String
  ) -> Bool {
    turn.withLock { _ in
      guard let file = SharedFile.opened(SlotFile.kind, path, O_RDWR) else { return false }
      defer { close(file.descriptor) }
      return file.identity == identity && file.reserve(offset, length)
    }
  }

  func willFork() { turn.willFork { _ in } }
  func didFork() { turn.didFork { _ in } }
}

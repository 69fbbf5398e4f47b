import BreakerCore
import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// The room on the disk that slots and places take.
@Suite struct SlotRoomTests {
  @Test func `a breaker with a limit takes a few pages of the disk, whatever the limit`() throws {
    let stage = try SlotStage()
    let page = try stage.page()
    _ = try #require(page.block(ofBreaker: 1))
    let before = try Self.bytesOnDisk(stage)
    let breakers = 100
    for id in 2...Int64(breakers + 1) {
      // Every second one has no limit, as under a rate.
      let terms = SlotTerms(CallLimit(id % 2 == 0 ? 10 : SlotTerms.most), revision: 1)
      let block = try #require(page.block(ofBreaker: id))
      block.end(try #require(block.begun(terms: terms)))
    }
    // The file system has its own notes about the parts.
    let each = try (Self.bytesOnDisk(stage) - before) / breakers
    #expect(each <= 4 * max(4_096, Int(getpagesize())), "\(each) bytes")
  }

  @Test func `as many calls begin as a limit permits, and every process sees all of them`() throws {
    let stage = try SlotStage()
    let blocks = try (0..<3).map { _ in try stage.block() }
    let terms = SlotTerms(CallLimit(SlotTerms.most), revision: 1)
    var calls: [(block: Int, held: HeldSlot)] = []
    while calls.count <= SlotTerms.most, let held = blocks[calls.count % 3].begun(terms: terms) {
      calls.append((calls.count % 3, held))
    }
    #expect(calls.count == SlotTerms.most)
    for block in blocks { #expect(block.usage.total == SlotTerms.most) }
    let states = try stage.page().states(ofBreakers: [1])
    #expect(states[1]?.calls.count == SlotTerms.most)
    for (block, held) in calls { #expect(blocks[block].end(held)) }
    for block in blocks { #expect(block.usage.total == 0) }
  }

  @Test func `a limit that is raised has the slots that it needs, and so has a weight`() throws {
    let stage = try SlotStage()
    let (one, other) = (try stage.block(), try stage.block())
    _ = try #require(one.begun(terms: SlotTerms(CallLimit(1), revision: 1)))
    let raised = SlotTerms(CallLimit(300), revision: 2)
    let heavy = try #require(other.begun(CallClaim(units: 299), terms: raised))
    #expect(one.enter(CallClaim(), raised) == .busy)
    #expect(one.usage.total == 300 && other.end(heavy))
    #expect(one.usage.total == 1)
  }

  @Test func `a lowered limit waits for the end of calls that another process has beyond it`()
    throws
  {
    let stage = try SlotStage()
    let (one, other) = (try stage.block(), try stage.block())
    let wide = SlotTerms(CallLimit(200), revision: 1)
    var calls = (0..<150).compactMap { _ in one.begun(terms: wide) }
    #expect(calls.count == 150)
    let narrow = SlotTerms(CallLimit(50), revision: 2)
    while calls.count > 50 {
      #expect(other.enter(CallClaim(), narrow) == .busy)
      #expect(one.end(calls.removeFirst()))
    }
    #expect(other.enter(CallClaim(), narrow) == .busy)
    #expect(one.end(calls.removeFirst()))
    #expect(other.begun(terms: narrow) != nil)
  }

  @Test func `the block of a deleted breaker stays its own while a late slot is taken`() throws {
    let stage = try SlotStage()
    let page = try stage.page()
    let terms = SlotTerms(CallLimit(100), revision: 1)
    let block = try #require(page.block(ofBreaker: 1))
    var calls = (0..<100).compactMap { _ in block.begun(terms: terms) }
    #expect(calls.count == 100)
    let last = calls.removeLast()
    for held in calls { block.end(held) }
    try SlotShortageTests.fill(stage.path + SlotFile.kind.suffix, from: 1_000)
    page.releaseBlocks(before: 90_000, except: Set(1_000..<90_000))
    #expect(page.block(ofBreaker: 90_000) == nil)
    #expect(block.end(last))
    page.releaseBlocks(before: 90_000, except: Set(1_000..<90_000))
    let next = try #require(page.block(ofBreaker: 90_000))
    #expect(next.usage.total == 0 && !next.hasUncountedLosses)
    #expect((0..<100).allSatisfy { _ in next.begun(terms: terms) != nil })
  }

  @Test(.enabled(if: getpagesize() == 4_096, "larger pages have room for all lines"))
  func `no call touches a line for which the disk has no room`() throws {
    let stage = try SlotStage()
    let block = try Self.blockOnFullDisk(stage)
    let terms = SlotTerms(CallLimit(100), places: 1_000, revision: 1)
    var calls: [HeldSlot] = []
    while calls.count <= 100, let held = block.begun(terms: terms) { calls.append(held) }
    #expect(calls.count == SlotFile.linesAtFirst)
    let own = try #require(block.owners.register())
    var waiters = 0
    while waiters <= 100, block.arrive(CallClaim(), own, isBrief: false) != nil { waiters += 1 }
    #expect(waiters == SlotFile.linesAtFirst)
    #expect(block.usage.total == SlotFile.linesAtFirst)
    #expect(block.enter(CallClaim(), terms) == .busy)
    _ = block.freeTheDead(believingLocks: true)
    for held in calls { #expect(block.end(held)) }
    #expect(block.usage.total == 0)
    let inherited = InheritedSlot(
      in: FileIdentity(device: 1, inode: 1), breaker: 1, owner: own,
      index: SlotFile.slotsOfBlock - 1, serial: 1)
    #expect(!block.isUnderWay(inherited))
  }

  /// A block whose lines beyond the first ones have no room: touching one ends this process.
  private static func blockOnFullDisk(_ stage: SlotStage) throws -> SlotBlock {
    let mapping = try #require(SlotMapping(inMemory: SlotFile.bytesOfBlockWithRing))
    let lines = SlotFile.linesAtFirst * SlotFile.bytesOfLine
    let parts = [
      (SlotFile.offsetOfSlots + lines, SlotFile.offsetOfWaiters),
      (SlotFile.offsetOfWaiters + lines, SlotFile.bytesOfBlock - 4_096),
    ]
    for (start, end) in parts {
      #expect(unsafe mprotect(mapping.address + start, end - start, PROT_NONE) == 0)
    }
    return SlotBlock(mapping, try stage.block().owners, of: 1, number: 1) { _, _ in false }
  }

  private static func bytesOnDisk(_ stage: SlotStage) throws -> Int {
    var status = stat()
    guard unsafe stat(stage.path + SlotFile.kind.suffix, &status) == 0 else {
      throw SupportError("stat", errno)
    }
    return Int(status.st_blocks) * 512
  }
}

import BreakerCore
import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// More breakers and processes than a file of slots has room for.
@Suite struct SlotShortageTests {
  private static let terms = SlotTerms(CallLimit(1), revision: 1)

  /// Gives every block that is left to breakers from a number on.
  static func fill(_ path: String, from first: Int) throws {
    let file = try #require(SharedFile.opened(SlotFile.kind, path, O_RDWR))
    defer { close(file.descriptor) }
    let head = try #require(SlotMapping(file, 0, SlotFile.kind.bytesOfHeader))
    for index in 0..<SlotFile.blocks {
      let word = unsafe head.word(SlotFile.offsetOfBlocks + index * 8)
      if unsafe word.pointee == 0 { unsafe word.pointee = UInt64(first + index) }
    }
    #expect(SlotPage.isFull(head))
    try Files.truncate(path, to: SlotFile.offset(ofBlock: SlotFile.blocks))
  }

  @Test(.timeLimit(.minutes(60)))
  func `blocks of deleted breakers are used again, but none in which a call is under way`() throws {
    let stage = try SlotStage()
    let page = try stage.page()
    let kept = try #require(page.block(ofBreaker: 1))
    let busy = try #require(page.block(ofBreaker: 2))
    let held = try #require(busy.begun(terms: Self.terms))
    let left = try #require(page.block(ofBreaker: 3))
    let narrow = SlotTerms(CallLimit(7), revision: 9)
    let ended = try #require(left.begun(terms: narrow))
    left.end(ended)
    let dead = try #require(try stage.page(as: stage.deadProcess).block(ofBreaker: 3))
    _ = try #require(dead.begun(terms: narrow))
    try Self.fill(stage.path + SlotFile.kind.suffix, from: 1_000)
    #expect(page.block(ofBreaker: 90_000) == nil)
    // All others exist, and so may a breaker that is newer than the one that asks.
    let living = Set((1_000..<1_000 + Int64(SlotFile.blocks)).filter { $0 < 1_900 } + [1])
    page.releaseBlocks(before: 1_900, except: living)
    let next = try #require(page.block(ofBreaker: 90_000))
    #expect(page.block(ofBreaker: 90_001) == nil)
    // It begins as if nothing had ever been there.
    #expect(next.usage.total == 0 && !next.hasUncountedLosses)
    #expect(next.begun(terms: Self.terms) != nil)
    #expect(next.enter(CallClaim(), Self.terms) == .busy)
    let other = try #require(try stage.page().block(ofBreaker: 90_000))
    #expect(other.enter(CallClaim(), Self.terms) == .busy)
    #expect(!left.end(ended))
    #expect(busy.end(held))
    page.releaseBlocks(before: 1_900, except: living)
    #expect(page.block(ofBreaker: 90_001) != nil)
    #expect(kept.begun(terms: Self.terms) != nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process too many knows it, and no process takes the visible calls for all`() throws {
    let stage = try SlotStage()
    let first = try stage.block()
    #expect(first.begun(terms: Self.terms) != nil)
    // Each is a process that lives: this one, under another number.
    let pages = try (1..<SlotFile.owners).map { _ in try stage.page(as: ProcessTable.current()) }
    for page in pages {
      #expect(page.block(ofBreaker: 1)?.owners.register() != nil)
    }
    let last = try stage.page()
    let block = try #require(last.block(ofBreaker: 1))
    #expect(block.areCallsSeen)
    #expect(block.enter(CallClaim(), Self.terms) == .unseen)
    #expect(!block.areCallsSeen && first.areCallsSeen)
    #expect(last.states(ofBreakers: [1]).isEmpty)
    withExtendedLifetime(pages) {}
  }
}

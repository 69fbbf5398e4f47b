import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The slots of a breaker, wherever its store keeps them.
@Suite struct StoreSlotsTests {
  private func slots(_ stage: StorageStage) throws -> SlotBlock {
    let made = try #require(try stage.step("gpu") { _ in })
    return try #require(stage.storage.slots(ofBreaker: made.breaker.id))
  }

  @Test(arguments: StorageKind.allCases)
  func `as many calls begin as the limit allows, and each ends once`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    let slots = try slots(stage)
    let terms = SlotTerms(CallLimit(3), revision: 1)
    let heavy = try #require(slots.enter(CallClaim(units: 2), terms).held)
    let light = try #require(slots.enter(CallClaim(), terms).held)
    #expect(slots.enter(CallClaim(), terms) == .busy)
    #expect(slots.usage.total == 3)
    #expect(slots.end(heavy))
    #expect(!slots.end(heavy))
    #expect(slots.usage.total == 1)
    // In one word, as a permit of the C library carries it.
    #expect(slots.end(try #require(HeldSlot(bits: light.bits))))
    #expect(slots.usage.total == 0)
    #expect(HeldSlot(bits: 0) == nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `calls of one breaker do not count for another`(kind: StorageKind) throws {
    let stage = try StorageStage(kind)
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let first = try slots(stage)
    let other = try #require(try stage.step("disk") { _ in })
    let second = try #require(stage.storage.slots(ofBreaker: other.breaker.id))
    let held = try #require(first.enter(CallClaim(), terms).held)
    #expect(second.enter(CallClaim(), terms).held != nil)
    #expect(!second.end(held))
    #expect(first.end(held))
    #expect(stage.storage.slots(ofBreaker: 0) == nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `later terms replace earlier ones, unless nothing later is in the store`(kind: StorageKind)
    throws
  {
    let stage = try StorageStage(kind)
    let slots = try slots(stage)
    #expect(slots.adopt(SlotTerms(CallLimit(2), revision: 9)))
    #expect(slots.adopt(SlotTerms(CallLimit(2), revision: 3)))
    let earlier = SlotTerms(CallLimit(1), revision: 3)
    #expect(slots.enter(CallClaim(), earlier) == .outdated)
    #expect(!slots.adopt(earlier))
    slots.impose(earlier)
    #expect(slots.enter(CallClaim(), earlier).held != nil)
    #expect(slots.enter(CallClaim(), earlier) == .busy)
    #expect(slots.adopt(SlotTerms(CallLimit(3), revision: 4)))
    #expect(slots.enter(CallClaim(), SlotTerms(CallLimit(3), revision: 4)).held != nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `a process that cannot read the limit keeps to the one in force, and never replaces it`(
    kind: StorageKind
  ) throws {
    let stage = try StorageStage(kind)
    let slots = try slots(stage)
    #expect(slots.termsInForce(places: 0) == nil)
    #expect(slots.adopt(SlotTerms(CallLimit(2), revision: 9)))
    let others = try #require(slots.termsInForce(places: 3))
    #expect(others.limit == CallLimit(2) && others.places == 3)
    #expect(slots.enter(CallClaim(), others).held != nil)
    #expect(slots.adopt(SlotTerms(CallLimit(1), revision: 10)))
    #expect(slots.enter(CallClaim(), others) == .outdated)
    let now = try #require(slots.termsInForce(places: 0))
    #expect(slots.enter(CallClaim(), now) == .busy)
  }

  @Test func `the dead of a host in memory keep no room, and their calls are lost once`() throws {
    let dead = ProcessIdentity(pid: 7, startTicks: 1, pidNamespace: 1)
    let living = ProcessIdentity(pid: 8, startTicks: 1, pidNamespace: 1)
    let isDead = Guarded(false)
    let clock = StoreClock.system
    let memory = MemoryStorage(
      clock: clock, program: "test", isGone: { $0 == dead && isDead.withLock { $0 } })
    let terms = SlotTerms(CallLimit(2), revision: 1)
    let first = try #require(memory.slots(ofBreaker: 1, as: dead))
    let second = try #require(memory.slots(ofBreaker: 1, as: living))
    let held = try #require(first.enter(CallClaim(), terms).held)
    _ = try #require(first.enter(CallClaim(), terms).held)
    #expect(!second.end(held))
    #expect(second.enter(CallClaim(), terms) == .busy)
    isDead.withLock { $0 = true }
    memory.letDeathsBeSeen()
    #expect(second.enter(CallClaim(), terms).held != nil)
    #expect(first.hasUncountedLosses && second.hasUncountedLosses)
    let lost = try #require(second.uncountedLosses(of: 1, in: 3))
    #expect(lost.processes == [dead] && lost.calls == 2)
    #expect(second.uncountedLosses(of: 1, in: 3)?.calls == 2)
    #expect(second.uncountedLosses(of: 1, in: 5)?.calls == 0)
    second.noteCounted(lost)
    #expect(!first.hasUncountedLosses && !second.hasUncountedLosses)
    #expect(second.uncountedLosses(of: 2, in: 5) == nil)
    #expect(!first.end(held))
  }
}

extension SlotEntry {
  /// The slots of the call; nil if it did not begin.
  var held: HeldSlot? {
    switch self {
    case .begun(let held): held
    case .busy, .unwanted, .outdated, .unseen: nil
    }
  }
}

import BreakerCore
import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// Callers that are stopped while they wait: a place whose caller never looks is one.
@Suite struct SlotPassingTests {
  private let terms = SlotTerms(CallLimit(2), places: 64, revision: 1)

  @Test func `many stopped processes are passed together`() throws {
    let stage = try SlotStage()
    let (block, stopped) = (try stage.block(), try (0..<40).map { _ in try stage.block() })
    block.adopt(terms)
    for one in stopped { _ = try one.arriving() }
    let awake = try block.arriving()
    #expect(block.passTheStopped() == .called)
    // It may come yet.
    #expect(block.passTheStopped() == .called)
    block.letTimePass()
    #expect(block.passTheStopped() == .changed)
    #expect(block.places.filter(\.isAbsent).count == 1)
    #expect(block.isPresent(awake))
    block.letTimePass()
    #expect(block.passTheStopped() == .changed)
    #expect(block.places.filter(\.isAbsent).count == 40)
    #expect(block.due?.index == awake.index)
  }

  @Test func `all waiters of a stopped process are passed at once`() throws {
    let stage = try SlotStage()
    let (block, stopped) = (try stage.block(), try stage.block())
    block.adopt(terms)
    let callers = try (0..<50).map { _ in try stopped.arriving() }
    let awake = try block.arriving()
    block.letTimePass()
    #expect(block.passTheStopped() == .called)
    block.letTimePass()
    #expect(block.passTheStopped() == .changed)
    #expect(block.places.filter(\.isAbsent).count == 50)
    #expect(block.due?.index == awake.index)
    // Each of them is woken in case it is late only, and comes back to its place.
    #expect(callers.allSatisfy { block.bell(of: $0) > 0 })
    for caller in callers.reversed() { #expect(stopped.isPresent(caller)) }
    #expect(block.due?.index == callers[0].index)
  }

  @Test
  func `only the caller that does not answer is passed if another thread of its process is awake`()
    throws
  {
    let stage = try SlotStage()
    let (block, other) = (try stage.block(), try stage.block())
    block.adopt(terms)
    _ = try other.arriving()
    let (awake, last) = (try other.arriving(), try block.arriving())
    block.letTimePass()
    #expect(block.passTheStopped() == .called)
    block.letTimePass()
    #expect(other.isPresent(awake))
    #expect(block.passTheStopped() == .changed)
    #expect(block.places.filter(\.isAbsent).count == 1)
    #expect(block.due?.index == awake.index)
    withExtendedLifetime(last) {}
  }

  @Test func `a heavy caller at the head is passed if it does not answer, and only then`() throws {
    let stage = try SlotStage()
    let (block, heavy) = (try stage.block(), try stage.block())
    let held = try #require(block.begun(terms: terms))
    let caller = try heavy.arriving(CallClaim(units: 2))
    let light = try block.arriving()
    // It has just come.
    #expect(block.passTheStopped() == .quiet)
    for _ in 0..<3 {
      block.letTimePass()
      #expect(block.passTheStopped() == .called)
      #expect(heavy.isPresent(caller))
      #expect(block.passTheStopped() == .quiet)
    }
    #expect(block.due == nil)
    block.letTimePass()
    #expect(block.passTheStopped() == .called)
    block.letTimePass()
    #expect(block.passTheStopped() == .changed)
    #expect(block.due?.index == light.index)
    block.end(held)
    // Without room, no caller has to answer.
    #expect(heavy.isPresent(caller))
    let all = try #require(block.takeTurn(CallClaim(units: 2), block.owners.own ?? 0))
    block.letTimePass()
    #expect(block.passTheStopped() == .quiet)
    block.end(all)
  }

  @Test func `a waiter begins though a heavy caller before it is stopped without room for it`()
    throws
  {
    let stage = try SlotStage()
    let (block, heavy) = (try stage.block(), try stage.block())
    _ = try #require(block.begun(terms: terms))
    _ = try heavy.arriving(CallClaim(units: 2))
    let terms = terms
    let threads = Threads()
    threads.start {
      let entry = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
      #expect(entry.hasBegun)
    }
    threads.join()
  }

  @Test func `callers that do not wait begin though the only one that waits is stopped`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    let held = try (0..<2).map { _ in try #require(block.begun(terms: terms)) }
    let puppet = try SlotPuppet(stage)
    try puppet.send("slot-wait 2 64 600000")
    block.untilWaiting(1)
    kill(puppet.pid, SIGSTOP)
    defer { puppet.kill() }
    for one in held { #expect(block.end(one)) }
    while block.begun(terms: terms) == nil { usleep(1_000) }
  }

  @Test func `a damaged time keeps no stopped caller at the head`() throws {
    let stage = try SlotStage()
    let (block, stopped) = (try stage.block(), try stage.block())
    block.adopt(terms)
    let caller = try stopped.arriving()
    for damage in [UInt64.max, 1 << 62] {
      unsafe block.waiter(caller.index, .awake).pointee = damage
      unsafe block.waiter(caller.index, .called).pointee = damage
      #expect(block.passTheStopped() == .called)
      block.letTimePass()
      #expect(block.passTheStopped() == .changed)
      #expect(stopped.isPresent(caller))
    }
  }
}

extension SlotBlock {
  /// Takes a place for a caller of this process.
  fileprivate func arriving(_ claim: CallClaim = CallClaim()) throws -> Caller {
    let own = try #require(owners.register())
    return try #require(arrive(claim, own, isBrief: false))
  }

  /// Moves all that was noted about waiters into the past.
  fileprivate func letTimePass() {
    let time = UInt64(2 * SlotCare.second)
    for index in 0..<placeExtent {
      for word in [WaiterWord.awake, .called] where unsafe waiter(index, word).pointee > time {
        unsafe waiter(index, word).pointee -= time
      }
    }
  }
}

import BreakerCore
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BreakerStore

/// Which callers look after owners that have died, and how often.
@Suite struct SlotCareTests {
  private let terms = SlotTerms(CallLimit(1), places: 8, revision: 1)

  @Test func `two watchers look every 50 ms, and all others every second`() throws {
    let stage = try SlotStage()
    let (block, others) = (try stage.block(), try stage.block())
    _ = try #require(block.begun(terms: terms))
    let callers = try (0..<3).map { _ in try arrive(at: block) }
    let other = try arrive(at: others)
    func pause(_ caller: SlotBlock.Caller) throws -> Int64 {
      let now = Patience.monotonicNanoseconds()
      let next = try #require(block.lookAfterAll { $0 == caller.index })
      return next - now
    }
    let (tick, second) = (SlotCare.tick..<SlotCare.second, SlotCare.second...)
    #expect(try callers.map { second.contains(try pause($0)) } == [true, true, false])
    #expect(tick.contains(try pause(callers[2])))
    #expect(tick.contains(try pause(other)))
  }

  @Test func `the cost of watchers is bounded, whatever a look costs`() {
    #expect(SlotCare.pause(after: 1_000) == SlotCare.tick)
    // Each of two looks for 0.1 ms in 100.
    #expect(SlotCare.pause(after: 100_000) == 100_000_000)
    #expect(SlotCare.pause(after: 1_000_000_000) == SlotCare.second)
    // A thorough look of 6 ms keeps the whole host from another one for 6 s.
    #expect(SlotCare.round(after: 6_000_000) == 6_000_000_000)
    #expect(SlotCare.round(after: 1_000) == SlotCare.round)
    #expect(SlotCare.round(after: 1_000_000_000) == SlotCare.longestRound)
    #expect(SlotCare.pause(among: 2) == SlotCare.second)
    // Together, they wake five times a second.
    let pauses = (0..<1_000).map { _ in SlotCare.pause(among: 1_000) }
    #expect(pauses.allSatisfy { (SlotCare.second...400 * SlotCare.second).contains($0) })
    #expect(pauses.reduce(0, +) > 160_000 * SlotCare.second)
  }

  private func arrive(at block: SlotBlock) throws -> SlotBlock.Caller {
    let own = try #require(block.owners.register())
    return try #require(block.arrive(CallClaim(), own, isBrief: false))
  }

  @Test func `a waiter takes the slot of a killed process that had overtaken it`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(3), places: 8, revision: 1)
    let (holder, block) = (try stage.block(), try stage.block())
    let held = try #require(holder.begun(CallClaim(priority: .background), terms: terms))
    let threads = Threads()
    let entry = Guarded<SlotEntry?>(nil)
    threads.start {
      let claim = CallClaim(units: 3, priority: .background)
      let told = block.enter(claim, terms, wait: SlotWait(atMost: .seconds(600)))
      entry.withLock { $0 = told }
    }
    holder.untilWaiting(1)
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 3 2") == "begun")
    #expect(holder.end(held))
    #expect(entry.withLock { $0 } == nil)
    puppet.kill()
    threads.join()
    #expect(entry.withLock { $0?.hasBegun } == true)
  }

  @Test func `a waiter goes on when both watchers are stopped and the owner of the slot dies`()
    throws
  {
    let stage = try SlotStage()
    let holder = try SlotPuppet(stage)
    #expect(try holder.ask("slot-begin 1") == "begun")
    let block = try stage.block()
    let threads = Threads()
    let terms = terms
    threads.start {
      let entry = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
      #expect(entry.hasBegun)
    }
    block.untilWaiting(1)
    let watchers = try (0..<2).map { _ in try SlotPuppet(stage) }
    for (number, watcher) in watchers.enumerated() {
      try watcher.send("slot-wait 1 8 600000")
      block.untilWaiting(number + 2)
    }
    for watcher in watchers { kill(watcher.pid, SIGSTOP) }
    defer { for watcher in watchers { watcher.kill() } }
    holder.kill()
    threads.join()
  }

  @Test func `a caller that may not wait any more wakes the next one, which may not know it`()
    throws
  {
    let stage = try SlotStage()
    let block = try stage.block()
    _ = try #require(block.begun(terms: terms))
    let isWanted = Guarded(true)
    let threads = Threads()
    let terms = terms
    threads.start {
      let wait = SlotWait(atMost: .seconds(600)) { isWanted.withLock { $0 } }
      #expect(block.enter(CallClaim(), terms, wait: wait) == .unwanted)
    }
    block.untilWaiting(1)
    let (second, third) = (try arrive(at: block), try arrive(at: block))
    isWanted.withLock { $0 = false }
    block.ring(try #require(block.first).index)
    threads.join()
    #expect(block.bell(of: second) == 1)
    #expect(block.bell(of: third) == 0)
  }

  @Test func `a call is lost too if its process is found while the kernel ends it`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    for round in 1...5 {
      let puppet = try SlotPuppet(stage)
      #expect(try puppet.ask("slot-begin 1") == "begun")
      #expect(try puppet.ask("map-files 10000") == "10000")
      kill(puppet.pid, SIGKILL)
      // Its lock is gone before its number is.
      while !block.freeTheDead(believingLocks: true) {}
      #expect(block.uncountedLosses(of: 1, in: 0)?.calls == round)
    }
  }

  @Test func `a slot is free after any thread of its process has become another program`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-exec 1") == "begun")
    let waiter = try SlotPuppet(stage)
    #expect(try waiter.ask("slot-wait 1 8 600000") == "begun")
    #expect(ProcFile.text("/proc/\(puppet.pid)/comm") == "cat")
    // No call was lost: it ended with its program.
    #expect(try stage.block().uncountedLosses(of: 1, in: 0)?.calls == 0)
  }

  @Test func `a call is lost if its process has ended as another program`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-exec 1") == "begun")
    let block = try stage.block()
    // It waits without ever looking.
    _ = try arrive(at: block)
    while ProcFile.text("/proc/\(puppet.pid)/comm") != "cat" { sched_yield() }
    puppet.kill()
    while !block.freeTheDead(believingLocks: true) { sched_yield() }
    #expect(block.uncountedLosses(of: 1, in: 0)?.calls == 1)
  }

  @Test func `the end of a thread that has begun a call frees nothing of its process`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin-thread 1") == "begun")
    let block = try stage.block()
    #expect(!block.freeTheDead(believingLocks: true))
    #expect(!block.freeTheDead(believingLocks: false))
    #expect(block.enter(CallClaim(), terms) == .busy)
  }
}

import BreakerCore
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BreakerStore

/// How those who wait learn that a process has ended.
@Suite struct SlotBeaconTests {
  private let terms = SlotTerms(CallLimit(1), places: 8, revision: 1)

  @Test func `the beacon of a process is lit until the process ends`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 1") == "begun")
    let block = try stage.block()
    let before = block.seen.presence
    #expect(before.isLit)
    puppet.kill()
    while block.seen.presence.isLit { sched_yield() }
  }

  @Test func `a beacon goes out with the thread that kept it lit, and is lit again`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin-thread 1") == "begun")
    let block = try stage.block()
    // A thread that was joined may not have left the kernel yet.
    while block.seen.presence.isLit { sched_yield() }
    // The process lives, so it keeps its slot.
    #expect(block.enter(CallClaim(), terms) == .busy)
    #expect(try puppet.ask("slot-look") == "looked")
    #expect(block.seen.presence.isLit)
  }

  @Test func `callers sleep to their end where all beacons are lit, and look where one is not`()
    throws
  {
    let stage = try SlotStage()
    let puppets = try (0..<3).map { _ in try SlotPuppet(stage) }
    #expect(try puppets[0].ask("slot-begin 1") == "begun")
    let block = try stage.block()
    let first = try arrive(at: block)
    for (number, puppet) in puppets.dropFirst().enumerated() {
      try puppet.send("slot-wait 1 8 600000")
      block.untilWaiting(number + 2)
    }
    /// How long the caller in a place may sleep, once it has looked a few times at short intervals.
    func nanoseconds(_ isOwn: (_ index: Int) -> Bool) throws -> Int64 {
      var vigil = Vigil()
      for _ in 0..<8 {
        vigil.begin()
        _ = block.lookAfterAll(&vigil, isRung: true, isOwn)
      }
      vigil.begin()
      let now = Patience.monotonicNanoseconds()
      let next = try #require(block.lookAfterAll(&vigil, isRung: true, isOwn))
      return next == .max ? .max : next - now
    }
    guard block.seen.presence.isWatched else { return }  // The kernel cannot wait for beacons.
    let (second, tick) = (Int64(1_000_000_000)...1_900_000_000, Int64(50_000_000)...999_999_999)
    #expect(try nanoseconds { $0 == first.index } == .max)
    #expect(second.contains(try nanoseconds { $0 != first.index }))
    // One that says of itself that it is another process cannot tell of that one's end.
    let stranger = try #require(ProcessTable.process(puppets[0].pid))
    let unlit = try stage.block(as: stranger)
    _ = try arrive(at: unlit)
    #expect(second.contains(try nanoseconds { $0 == first.index }))
    #expect(tick.contains(try nanoseconds { $0 != first.index }))
  }

  private func arrive(at block: SlotBlock) throws -> SlotBlock.Caller {
    let own = try #require(block.owners.register())
    return try #require(block.arrive(CallClaim(), own, isBrief: false))
  }

  @Test func `a waiter learns of the end of a process that came after it and went before it`()
    throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(3), places: 8, revision: 1)
    let (holder, block) = (try stage.block(), try stage.block())
    let held = try #require(holder.begun(CallClaim(priority: .background), terms: terms))
    let threads = Threads()
    let looks = Guarded(0)
    let entry = Guarded<SlotEntry?>(nil)
    threads.start {
      let wait = SlotWait(atMost: .seconds(600)) {
        looks.withLock { $0 += 1 }
        return true
      }
      let told = block.enter(CallClaim(units: 3, priority: .background), terms, wait: wait)
      entry.withLock { $0 = told }
    }
    holder.untilWaiting(1)
    // These two look once a second in its place. They are stopped, so they do not look.
    let watchers = try (0..<2).map { _ in try SlotPuppet(stage) }
    for (number, watcher) in watchers.enumerated() {
      try watcher.send("slot-wait 3 8 600000 background")
      holder.untilWaiting(number + 2)
    }
    for watcher in watchers { kill(watcher.pid, SIGSTOP) }
    defer { for watcher in watchers { watcher.kill() } }
    // The waiter sleeps to its end once it has looked without being one of those who look.
    let before = looks.withLock { $0 }
    while looks.withLock({ $0 }) == before { usleep(1_000) }
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 3 2") == "begun")
    #expect(holder.end(held))
    #expect(entry.withLock { $0 } == nil)
    puppet.kill()
    threads.join()
    #expect(entry.withLock { $0?.hasBegun } == true)
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

  @Test func `a waiter learns of an end where the kernel cannot wait for beacons`() throws {
    let stage = try SlotStage()
    let holder = try SlotPuppet(stage)
    #expect(try holder.ask("slot-begin 1") == "begun")
    let block = try stage.block()
    // futex_waitv(2)
    let waiter = try SlotPuppet(stage, ["without-call=449"])
    try waiter.send("slot-wait 1 8 600000")
    block.untilWaiting(1)
    // It sleeps between its looks.
    let before = try sleeps(of: waiter.pid)
    while try sleeps(of: waiter.pid) < before + 3 { usleep(1_000) }
    holder.kill()
    #expect(try waiter.answer() == "begun")
  }

  /// How often the only thread of a process has gone to sleep.
  private func sleeps(of pid: Int32) throws -> Int {
    let status = try #require(ProcFile.text("/proc/\(pid)/status"))
    let line = try #require(
      status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") })
    return try #require(Int(line.drop { !$0.isNumber }))
  }

  @Test func `a process that opens a store again and again keeps one beacon`() throws {
    let stage = try SlotStage()
    for _ in 0..<20 {
      let block = try stage.block()
      let held = try #require(block.begun(terms: terms))
      #expect(block.end(held))
    }
    let block = try stage.block()
    #expect(unsafe block.header(.beacons).pointee <= 1)
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
      while !block.lookForOneWhoEnds() {}
      #expect(block.uncountedLosses(of: 1, in: 0)?.calls == round)
    }
  }

  @Test func `a slot is free after any thread of its process has become another program`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-exec 1") == "begun")
    // The kernel puts out no beacon that such a thread has lit, unless it is the first of its process.
    let waiter = try SlotPuppet(stage)
    #expect(try waiter.ask("slot-wait 1 8 600000") == "begun")
    #expect(ProcFile.text("/proc/\(puppet.pid)/comm") == "cat")
    // No call was lost: it ended with its program.
    #expect(try stage.block().uncountedLosses(of: 1, in: 0)?.calls == 0)
  }

  @Test func `no beacon is lit in a copy of the file, where nobody would put it out`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 1") == "begun")
    let seen = try stage.block().seen
    #expect(seen.presence.isLit)
    let (page, copy) = (stage.path + SlotFile.kind.suffix, stage.path + "-copy")
    try Files.write(copy, try Files.read(page))
    try Files.rename(copy, to: page)
    let block = try stage.block()
    // There is a call of a process that lives, and that knows nothing of it.
    #expect(block.usage.total == 1)
    #expect(!block.seen.presence.isLit)
  }

  @Test func `damaged beacons keep nobody from a slot`() throws {
    let stage = try SlotStage()
    var random = SeededRandom(seed: .random(in: 0 ... .max))
    let block = try stage.block()
    for byte in 0..<SlotFile.beacons * SlotFile.bytesOfLine {
      unsafe block.mapping.address.storeBytes(
        of: UInt8(truncatingIfNeeded: random.next()),
        toByteOffset: SlotFile.offsetOfBeacons + byte, as: UInt8.self)
    }
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 1") == "begun")
    let threads = Threads()
    let terms = terms
    threads.start {
      guard
        case .begun(let held) = block.enter(
          CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
      else {
        Issue.record("the slot is lost")
        return
      }
      block.end(held)
    }
    block.untilWaiting(1)
    puppet.kill()
    threads.join()
  }
}

extension SlotBlock {
  /// Who is there, and a vigil for them.
  fileprivate var seen: (presence: SlotPresence, vigil: Vigil) {
    var vigil = Vigil()
    let presence = see(&vigil)
    return (presence, vigil)
  }
}

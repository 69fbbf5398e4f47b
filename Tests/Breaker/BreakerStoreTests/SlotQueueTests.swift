import BreakerCore
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BreakerStore

/// Callers that wait for a slot.
@Suite struct SlotQueueTests {
  private let terms = SlotTerms(CallLimit(1), places: 8, revision: 1)

  @Test func `a caller that waits begins when a call ends`() throws {
    let stage = try SlotStage()
    let (first, second) = (try stage.block(), try stage.block())
    let held = try #require(first.begun(terms: terms))
    let threads = Threads()
    let answer = Guarded<SlotEntry?>(nil)
    let terms = terms
    threads.start {
      let entry = second.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
      answer.withLock { $0 = entry }
    }
    first.untilWaiting(1)
    #expect(answer.withLock { $0 } == nil)
    // No caller overtakes it.
    #expect(first.end(held))
    threads.join()
    guard case .begun(let next)? = answer.withLock({ $0 }) else {
      Issue.record("it did not begin")
      return
    }
    #expect(first.enter(CallClaim(), terms) == .busy)
    #expect(second.end(next))
    #expect(first.gate.bits & 7 == 0)
    #expect(first.begun(terms: terms) != nil)
  }

  @Test func `callers begin in the order of arrival, whatever side they are on`() throws {
    let stage = try SlotStage()
    let blocks = try (0..<3).map { _ in try stage.block() }
    let held = try #require(blocks[0].begun(terms: terms))
    let order = Guarded<[Int]>([])
    let threads = Threads()
    let terms = terms
    for number in 0..<8 {
      let block = blocks[number % 3]
      threads.start {
        guard
          case .begun(let held) = block.enter(
            CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
        else { return }
        order.withLock { $0.append(number) }
        block.end(held)
      }
      blocks[0].untilWaiting(number + 1)
    }
    #expect(blocks[0].enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600))) == .busy)
    #expect(blocks[0].end(held))
    threads.join()
    #expect(order.withLock { $0 } == Array(0..<8))
  }

  @Test func `a wait ends in time, and its place is free again`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    let held = try #require(block.begun(terms: terms))
    for _ in 0..<20 {
      let start = Patience.monotonicNanoseconds()
      let wait = SlotWait(atMost: .milliseconds(2))
      #expect(block.enter(CallClaim(), terms, wait: wait) == .busy)
      #expect(Patience.monotonicNanoseconds() - start >= 2_000_000)
      #expect(block.places.isEmpty)
    }
    #expect(block.end(held))
    #expect(block.begun(terms: terms) != nil)
  }

  @Test func `waiters that were killed take no place in the queue`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    _ = try #require(block.begun(terms: terms))
    let terms = SlotTerms(CallLimit(1), places: 2, revision: 1)
    let wait = SlotWait(atMost: .seconds(600)) { false }
    for answer in [SlotEntry.busy, .unwanted] {
      let waiters = try (0..<2).map { _ in try SlotPuppet(stage) }
      for (number, waiter) in waiters.enumerated() {
        try waiter.send("slot-wait 1 8 600000")
        block.untilWaiting(number + 1)
      }
      if answer == .unwanted { for waiter in waiters { waiter.kill() } }
      // A caller that finds a place is asked whether it wants to wait.
      #expect(block.enter(CallClaim(), terms, wait: wait) == answer)
      for waiter in waiters { waiter.kill() }
      while !block.places.isEmpty { _ = block.freeTheDead(believingLocks: true) }
    }
  }

  @Test func `a caller comes into the place of one that was killed, if there is no other`() throws {
    let stage = try SlotStage()
    let (block, dead) = (try stage.block(), try stage.block(as: stage.deadProcess))
    _ = try #require(block.begun(terms: terms))
    let owner = try #require(dead.owners.register())
    while dead.arrive(CallClaim(), owner, isBrief: false) != nil {}
    #expect(block.places.count == SlotFile.placesOfBlock)
    let terms = SlotTerms(CallLimit(1), places: SlotFile.placesOfBlock, revision: 1)
    let wait = SlotWait(atMost: .seconds(600)) { false }
    // A caller that finds a place is asked whether it wants to wait.
    #expect(block.enter(CallClaim(), terms, wait: wait) == .unwanted)
  }

  @Test func `a caller whose wait is given up leaves when it is woken`() throws {
    let stage = try SlotStage()
    let (first, second) = (try stage.block(), try stage.block())
    _ = try #require(first.begun(terms: terms))
    let isWanted = Guarded(true)
    let threads = Threads()
    let terms = terms
    threads.start {
      let wait = SlotWait(atMost: .seconds(600)) { isWanted.withLock { $0 } }
      #expect(second.enter(CallClaim(), terms, wait: wait) == .unwanted)
    }
    first.untilWaiting(1)
    isWanted.withLock { $0 = false }
    first.wakeAll()
    threads.join()
    #expect(first.places.isEmpty)
  }

  @Test func `a waiter takes the slot of an owner that ends, though no process wakes it`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 1") == "begun")
    let block = try stage.block()
    let threads = Threads()
    let terms = terms
    let began = Guarded(false)
    threads.start {
      if case .begun = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600))) {
        began.withLock { $0 = true }
      }
    }
    block.untilWaiting(1)
    puppet.kill()
    threads.join()
    #expect(began.withLock { $0 })
    #expect(block.uncountedLosses(of: 1, in: 0)?.calls == 1)
  }

  @Test func `the last to be served and the last of another process look after all others`() throws
  {
    let stage = try SlotStage()
    let blocks = try (0..<3).map { _ in try stage.block() }
    func arrive(_ side: Int, _ priority: CallPriority = .ordinary) throws -> SlotBlock.Caller {
      let own = try #require(blocks[side].owners.register())
      return try #require(
        blocks[side].arrive(CallClaim(priority: priority), own, isBrief: false))
    }
    func watchers() -> [Int] {
      let watchers = blocks[0].watchers
      return [watchers.last, watchers.other].compactMap { $0?.index }
    }
    #expect(watchers().isEmpty)
    let background = try arrive(0, .background)
    let first = try arrive(0)
    #expect(watchers() == [background.index])
    let second = try arrive(1)
    let third = try arrive(1)
    #expect(watchers() == [background.index, third.index])
    let last = try arrive(2, .background)
    #expect(watchers() == [last.index, background.index])
    // A waiter that is served in turn has no other to wake.
    let bells = [second, third, background, last].map { blocks[0].bell(of: $0) }
    blocks[0].leave(first)
    #expect(watchers() == [last.index, background.index])
    #expect([second, third, background, last].map { blocks[0].bell(of: $0) } == bells)
    // The last waiter, or the last one of its process, wakes the waiters that look from now on.
    blocks[2].leave(last)
    #expect(watchers() == [background.index, third.index])
    #expect(blocks[0].bell(of: third) != bells[1])
    blocks[0].leave(background)
    #expect(watchers() == [third.index])
    blocks[1].leave(second)
    blocks[1].leave(third)
    #expect(watchers().isEmpty)
  }

  @Test func `a waiter goes on when its watchers die with the owner of the slot`()
    throws
  {
    let stage = try SlotStage()
    let puppets = try (0..<3).map { _ in try SlotPuppet(stage) }
    let block = try stage.block()
    #expect(try puppets[0].ask("slot-begin 1") == "begun")
    let threads = Threads()
    let terms = terms
    let began = Guarded(false)
    threads.start {
      if case .begun = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600))) {
        began.withLock { $0 = true }
      }
    }
    block.untilWaiting(1)
    for (number, puppet) in puppets.dropFirst().enumerated() {
      try puppet.send("slot-wait 1 8 600000")
      block.untilWaiting(number + 2)
    }
    for puppet in puppets.reversed() { puppet.kill() }
    threads.join()
    #expect(began.withLock { $0 })
  }

  @Test func `a waiter that was killed or stopped keeps no other from the slot`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    for isKilled in [true, false] {
      let held = try #require(block.begun(terms: terms))
      let puppet = try SlotPuppet(stage)
      try puppet.send("slot-wait 1 8 600000")
      block.untilWaiting(1)
      let threads = Threads()
      let terms = terms
      threads.start {
        if case .begun(let held) = block.enter(
          CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
        {
          block.end(held)
        }
      }
      block.untilWaiting(2)
      if isKilled { puppet.kill() } else { kill(puppet.pid, SIGSTOP) }
      #expect(block.end(held))
      threads.join()
      if !isKilled {
        // It comes back by itself.
        kill(puppet.pid, SIGCONT)
        #expect(try puppet.answer() == "begun")
        #expect(try puppet.ask("slot-end") == "ended")
      }
    }
  }

  @Test func `the child of a fork owns no slot of its parent, and takes its own`() throws {
    let stage = try SlotStage()
    let puppet = try SlotPuppet(stage)
    #expect(try puppet.ask("slot-begin 2") == "begun")
    #expect(try puppet.ask("fork slot-end") == "refused")
    #expect(try puppet.ask("fork slot-begin 2") == "begun")
    // That child has ended.
    let block = try stage.block()
    let terms = SlotTerms(CallLimit(2), revision: 1)
    #expect(block.begun(terms: terms) != nil)
    #expect(block.enter(CallClaim(), terms) == .busy)
    #expect(try puppet.ask("slot-end") == "ended")
    #expect(block.begun(terms: terms) != nil)
  }

  @Test func `threads of several sides never have more under way than the limit`() throws {
    let stage = try SlotStage()
    let blocks = try (0..<3).map { _ in try stage.block() }
    let witness = Witness()
    let limit = CallLimit(4, reserved: 1)
    let terms = SlotTerms(limit, places: 64, revision: 1)
    Threads.run(6) { number in
      let block = blocks[number % 3]
      var random = SeededRandom(seed: UInt64(number))
      for _ in 0..<rounds(3_000) {
        let claim = CallClaim(
          units: random.pick([1, 1, 1, 2, 3]), priority: random.pick([.ordinary, .background]))
        let wait = random.pick([
          nil, SlotWait(atMost: .milliseconds(1)), SlotWait(atMost: .seconds(600)),
        ])
        guard case .begun(let held) = block.enter(claim, terms, wait: wait) else { continue }
        witness.enter(claim, limit)
        if random.number(0...3) == 0 { sched_yield() }
        witness.leave(claim, limit)
        block.end(held)
      }
    }
    #expect(witness.mostUnits <= 4)
    #expect(witness.mostBackground <= 3)
    #expect(witness.begun > 0)
    #expect(blocks[0].usage.total == 0)
    #expect(blocks[0].places.isEmpty)
    #expect(blocks[0].gate.bits & 7 == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes that are killed and stopped never have more under way than the limit`() throws {
    let stage = try SlotStage()
    let limit = 4
    let count = 6
    let witness = try SlotWitness(path: stage.directory.file("witness"))
    var random = SeededRandom(seed: .random(in: 0 ... .max))
    var puppets = try (0..<count).map { _ in try SlotPuppet(stage) }
    func start(_ index: Int) throws {
      try puppets[index].send("slot-storm \(limit) 3 \(witness.path) \(index) \(random.next())")
    }
    for index in 0..<count { try start(index) }
    for _ in 0..<rounds(100) {
      usleep(UInt32(random.number(1_000...20_000)))
      let index = random.number(0...count - 1)
      let pid = puppets[index].pid
      if random.number(0...2) == 0 {
        // Its calls under way are no longer counted: they may end at any instant from now on.
        witness.exclude(index)
        puppets[index].kill()
        puppets[index] = try SlotPuppet(stage)
        witness.include(index)
        try start(index)
      } else {
        kill(pid, SIGSTOP)
        usleep(UInt32(random.number(0...150_000)))
        kill(pid, SIGCONT)
      }
    }
    while witness.begun <= 100 { usleep(1_000) }
    for index in 0..<count { witness.stop(index) }
    for puppet in puppets { #expect(try puppet.answer().hasPrefix("begun ")) }
    #expect(witness.violations == 0)
    // Nothing is left of any of them.
    let block = try stage.block()
    let terms = SlotTerms(CallLimit(limit), places: 64, revision: 1)
    for _ in 0..<limit {
      guard case .begun = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .seconds(600)))
      else {
        Issue.record("a slot is lost")
        return
      }
    }
  }
}

/// A puppet that takes slots.
func SlotPuppet(_ stage: SlotStage, _ options: [String] = []) throws -> Puppet {
  try Puppet(onHostClock: stage.path, startedBy: [], options)
}

/// Counts what is under way, apart from what it watches.
private final class Witness: Sendable {
  private let units = Atomic(0)
  private let background = Atomic(0)
  private let most = Guarded((units: 0, background: 0, begun: 0))

  var mostUnits: Int { most.withLock { $0.units } }
  var mostBackground: Int { most.withLock { $0.background } }
  var begun: Int { most.withLock { $0.begun } }

  func enter(_ claim: CallClaim, _ limit: CallLimit) {
    let weight = limit.weight(of: claim)
    let units = units.add(weight, ordering: .sequentiallyConsistent).newValue
    let isBackground = claim.priority == .background
    let background = background.add(
      isBackground ? weight : 0, ordering: .sequentiallyConsistent
    ).newValue
    most.withLock { most in
      most = (max(most.units, units), max(most.background, background), most.begun + 1)
    }
  }

  func leave(_ claim: CallClaim, _ limit: CallLimit) {
    let weight = limit.weight(of: claim)
    if claim.priority == .background {
      background.subtract(weight, ordering: .sequentiallyConsistent)
    }
    units.subtract(weight, ordering: .sequentiallyConsistent)
  }
}

extension SlotBlock {
  /// Waits until so many callers wait.
  func untilWaiting(_ count: Int) {
    while places.filter(\.isWaiting).count < count { usleep(100) }
  }

  /// How often a caller that waits has been woken.
  func bell(of caller: Caller) -> UInt64 { unsafe waiter(caller.index, .bell).pointee }

  /// The places that are taken.
  var places: [PlaceWord] {
    (0..<placeExtent).map { word(ofPlace: $0) }.filter { !$0.isFree }
  }
}

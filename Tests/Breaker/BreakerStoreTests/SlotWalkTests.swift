import BreakerCore
import CHost
import TestSupport
import Testing

@testable import BreakerStore

/// Random walks on which the slots and an oracle, which keeps lists and counts from scratch, agree at every step.
@Suite struct SlotWalkTests {
  @Test(arguments: StorageKind.allCases, 1...UInt64(40))
  func `slots agree with an oracle that counts from scratch`(kind: StorageKind, seed: UInt64) throws
  {
    var walk = try SlotWalk(kind, seed: seed)
    for step in 0..<300 {
      if let difference = try walk.step() {
        Issue.record("\(kind), seed \(seed), step \(step): \(difference)")
        return
      }
    }
  }

  @Test func `the walks reach every answer`() throws {
    var reached: Set<String> = []
    for seed in 1...UInt64(10) {
      var walk = try SlotWalk(.memory, seed: seed)
      for _ in 0..<300 { _ = try walk.step() }
      reached.formUnion(walk.reached)
    }
    let all: Set = [
      "begun", "busy", "waiting", "no place", "turn", "no turn", "absent", "lost", "over the limit",
      "begun in a ramp", "busy in a ramp",
    ]
    #expect(reached == all)
  }
}

/// One walk of three processes under a limit, and of the oracle.
private struct SlotWalk {
  private(set) var reached: Set<String> = []
  private var random: SeededRandom
  private let host: WalkedHost
  private var sides: [SlotBlock]
  private var terms: SlotTerms
  private var oracle: SlotOracle
  private var calls: [Int: HeldSlot] = [:]
  private var waiters: [Int: SlotBlock.Caller] = [:]
  private var lastNumber = 0
  private var lastRamp: Int64 = 0
  private var lostCalls: Int64 = 0

  init(_ kind: StorageKind, seed: UInt64) throws {
    let host = try WalkedHost(kind)
    random = SeededRandom(seed: seed)
    self.host = host
    sides = try (0..<3).map { _ in try host.newProcess() }
    terms = SlotTerms(CallLimit(3), places: 4, revision: 1)
    oracle = SlotOracle(limit: terms.limit, places: terms.places)
    for side in sides {
      #expect(side.owners.register() != nil)
      side.adopt(terms)
    }
  }

  /// Takes a step, and returns where the slots and the oracle differ.
  mutating func step() throws -> String? {
    let side = random.number(0...2)
    let difference =
      switch random.number(0...19) {
      case 0..<8: enter(side)
      case 8..<11: end()
      case 11..<13: arrive(side)
      case 13..<15: takeTurn()
      case 15: leave()
      case 16: missTurn()
      case 17: try die(side)
      default: change(side)
      }
    // A caller that does not answer for long is passed, and the machine may be busy.
    for waiter in oracle.waiters where !waiter.isAbsent {
      guard let caller = waiters[waiter.number], sides[waiter.owner].isPresent(caller) else {
        return "\(waiter) has no place"
      }
    }
    return difference ?? self.difference(side)
  }

  private func difference(_ side: Int) -> String? {
    let block = sides[side]
    if block.usage != oracle.usage { return "\(block.usage), not \(oracle.usage)" }
    if block.places.count != oracle.waiters.count { return "\(block.places.count) wait" }
    let due = block.due.flatMap { due in waiters.first { $0.value.index == due.index }?.key }
    return due == oracle.due ? nil : "due is \(due ?? 0), not \(oracle.due ?? 0)"
  }

  private mutating func someClaim() -> CallClaim {
    CallClaim(
      units: random.pick([0, 1, 1, 1, 2, 3, 9]),
      priority: random.pick([.ordinary, .ordinary, .background]))
  }

  private mutating func nextNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }

  private mutating func enter(_ side: Int) -> String? {
    let claim = someClaim()
    let mayBegin = oracle.mayBegin(claim)
    switch sides[side].enter(claim, terms) {
    case .begun(let held):
      reached.insert(oracle.succeeded == nil ? "begun" : "begun in a ramp")
      let number = nextNumber()
      calls[number] = held
      oracle.begin(claim, of: side, as: number)
      return mayBegin ? nil : "\(claim) began"
    case .busy:
      reached.insert(oracle.succeeded == nil ? "busy" : "busy in a ramp")
      return mayBegin ? "\(claim) is busy" : nil
    case .unwanted, .outdated, .unseen: return "no answer"
    }
  }

  private mutating func end() -> String? {
    guard let call = oracle.calls.randomElement(using: &random) else { return nil }
    guard let held = calls.removeValue(forKey: call.number) else { return nil }
    oracle.calls.removeAll { $0.number == call.number }
    let block = sides[call.owner]
    if random.number(0...2) > 0 {
      block.noteSuccess(ofUnits: block.units(of: held), in: terms)
      oracle.succeeded? += call.units
    }
    return block.end(held) && !block.end(held) ? nil : "an end"
  }

  private mutating func arrive(_ side: Int) -> String? {
    let claim = someClaim()
    let block = sides[side]
    guard let own = block.owners.own, let caller = block.arrive(claim, own, isBrief: false) else {
      return "no place at all"
    }
    let hasPlace = block.hasPlace(for: caller, among: terms.places)
    reached.insert(hasPlace ? "waiting" : "no place")
    guard hasPlace == oracle.hasPlace else { return "a place for \(claim)" }
    guard hasPlace else {
      block.leave(caller)
      return nil
    }
    let number = nextNumber()
    waiters[number] = caller
    oracle.waiters.append(.init(number: number, owner: side, claim: claim))
    return nil
  }

  private mutating func takeTurn() -> String? {
    guard let waiter = oracle.waiters.randomElement(using: &random) else { return nil }
    guard let caller = waiters[waiter.number] else { return nil }
    let block = sides[waiter.owner]
    let isFirst = block.first?.index == caller.index
    let held = isFirst ? block.takeTurn(waiter.claim, block.owners.own ?? 0) : nil
    reached.insert(held == nil ? "no turn" : "turn")
    guard (held != nil) == (oracle.due == waiter.number) else { return "the turn of \(waiter)" }
    guard let held else { return nil }
    block.leave(caller)
    waiters[waiter.number] = nil
    oracle.waiters.removeAll { $0.number == waiter.number }
    calls[waiter.number] = held
    oracle.begin(waiter.claim, of: waiter.owner, as: waiter.number)
    return nil
  }

  private mutating func leave() -> String? {
    guard let waiter = oracle.waiters.randomElement(using: &random) else { return nil }
    if let caller = waiters.removeValue(forKey: waiter.number) { sides[waiter.owner].leave(caller) }
    oracle.waiters.removeAll { $0.number == waiter.number }
    return nil
  }

  /// Lets a waiter be passed, or come back to its place.
  private mutating func missTurn() -> String? {
    guard let index = oracle.waiters.indices.randomElement(using: &random),
      let caller = waiters[oracle.waiters[index].number]
    else { return nil }
    let block = sides[oracle.waiters[index].owner]
    reached.insert("absent")
    oracle.waiters[index].isAbsent.toggle()
    if oracle.waiters[index].isAbsent { return block.pass(caller) ? nil : "it was not passed" }
    return block.isPresent(caller) ? nil : "it cannot come back"
  }

  /// Kills a process, and starts another one in its place; only a host in memory can kill one of this process.
  private mutating func die(_ side: Int) throws -> String? {
    guard host.kill(sides[side]) else { return nil }
    let left = oracle.expire(side)
    for number in left.calls { calls[number] = nil }
    for number in left.waiters { waiters[number] = nil }
    sides[side] = try host.newProcess()
    #expect(sides[side].owners.register() != nil)
    let finder = sides[(side + 1) % 3]
    let isAny = finder.freeTheDead(believingLocks: false)
    guard isAny == !(left.calls + left.waiters).isEmpty else { return "what the dead had" }
    guard let lost = finder.uncountedLosses(of: 1, in: lostCalls) else { return "other slots" }
    finder.noteCounted(lost)
    lostCalls += Int64(lost.calls)
    if lost.calls > 0 { reached.insert("lost") }
    return lost.calls == left.calls.count ? nil : "\(lost.calls) lost, not \(left.calls.count)"
  }

  /// Begins a ramp, ends it, or lets it go on.
  private mutating func nextRamp() -> Instant? {
    switch random.number(0...4) {
    case 0, 1:
      lastRamp += 1
      oracle.succeeded = 0
      return Instant(nanoseconds: lastRamp * 1_000)
    case 2: return terms.rampUntil
    default:
      oracle.succeeded = nil
      return nil
    }
  }

  private mutating func change(_ side: Int) -> String? {
    let units = random.pick([1, 2, 3, 5, 8])
    let reserved = min(random.pick([0, 0, 1, units - 1]), units - 1)
    terms = SlotTerms(
      CallLimit(units, reserved: reserved), places: random.pick([0, 1, 3, 6]),
      revision: terms.revision + 1, rampUntil: nextRamp())
    (oracle.limit, oracle.places) = (terms.limit, terms.places)
    if oracle.usage.total > units { reached.insert("over the limit") }
    return sides[side].adopt(terms) ? nil : "\(terms.limit) is not in force"
  }
}

/// A host of which a walk uses the slots of one breaker.
private final class WalkedHost {
  private let stage: SlotStage?
  private let memory: SlotMemory
  private let dead = Guarded<Set<ProcessIdentity>>([])
  private var lastPid: Int32 = 0

  init(_ kind: StorageKind) throws {
    stage = kind == .file ? try SlotStage() : nil
    memory = SlotMemory(
      judge: OwnerJudge { [dead] process in dead.withLock { $0.contains(process) } },
      clock: .system)
  }

  /// The slots as another process uses them.
  func newProcess() throws -> SlotBlock {
    if let stage { return try stage.block() }
    lastPid += 1
    let process = ProcessIdentity(pid: lastPid, startTicks: 1, pidNamespace: 1)
    return try #require(memory.block(of: .row(1), as: process))
  }

  /// Ends the process that uses the slots; false if that takes a real one.
  func kill(_ side: SlotBlock) -> Bool {
    guard stage == nil, let own = side.owners.own, let process = side.owners.process(own) else {
      return false
    }
    dead.withLock { _ = $0.insert(process) }
    return true
  }
}

extension SlotBlock {
  /// Passes a caller, as watchers pass one that is stopped.
  fileprivate func pass(_ caller: Caller) -> Bool {
    let absent = caller.word.noting(isAbsent: true)
    let isPassed =
      unsafe sb_decide(place(caller.index), caller.word.bits, absent.bits) != 0
    settle()
    return isPassed
  }
}

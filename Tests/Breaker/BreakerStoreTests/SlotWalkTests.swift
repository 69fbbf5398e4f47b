import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The slots in shared memory do what the table of the core does, step by step.
@Suite struct SlotWalkTests {
  @Test(arguments: 1...UInt64(40))
  func `shared slots agree with the table of slots of the core`(seed: UInt64) throws {
    var walk = try SlotWalk(seed: seed)
    for step in 0..<300 {
      if let difference = walk.step() {
        Issue.record("seed \(seed), step \(step): \(difference)")
        return
      }
    }
  }
}

private struct SlotWalk {
  var random: SeededRandom
  let stage: SlotStage
  let sides: [SlotBlock]
  var table: SlotTable<Int>
  var terms: SlotTerms
  var calls: [(held: HeldSlot, side: Int, call: Int64)] = []
  var waiters: [(caller: SlotBlock.Caller, side: Int, claim: CallClaim, ticket: Int64)] = []

  init(seed: UInt64) throws {
    let stage = try SlotStage()
    random = SeededRandom(seed: seed)
    self.stage = stage
    sides = try (0..<3).map { _ in try stage.block() }
    terms = SlotTerms(CallLimit(3), places: 4, revision: 1)
    table = SlotTable(terms.limit, places: 4)
  }

  mutating func step() -> String? {
    let side = random.number(0...2)
    let claim = CallClaim(
      units: random.pick([1, 1, 1, 2, 3, 9]),
      priority: random.pick([.ordinary, .ordinary, .background]))
    switch random.number(0...9) {
    case 0...3:
      let expected = table.enter(claim, by: side, mayWait: false)
      switch (sides[side].enter(claim, terms), expected) {
      case (.begun(let held), .begun(let call)): calls.append((held, side, call))
      case (.busy, .busy): break
      case (let answer, let expected): return "\(claim) gets \(answer), not \(expected)"
      }
    case 4, 5:
      guard !calls.isEmpty else { break }
      let call = calls.remove(at: random.number(0...calls.count - 1))
      if sides[call.side].end(call.held) != table.end(call.call) { return "an end" }
    case 6:
      // Only where the caller would wait: the one that would not has no place in the table.
      guard table.waiters.count < 4 else { break }
      var copy = table
      guard case .waiting(let ticket) = copy.enter(claim, by: side, mayWait: true) else { break }
      guard let own = sides[side].owners.register(),
        let caller = sides[side].arrive(claim, own, isBrief: false)
      else { return "no place" }
      table = copy
      waiters.append((caller, side, claim, ticket))
    case 7:
      guard !waiters.isEmpty else { break }
      let index = random.number(0...waiters.count - 1)
      let waiter = waiters[index]
      let block = sides[waiter.side]
      let isFirst = block.first?.index == waiter.caller.index
      let held = isFirst ? block.takeWithCare(waiter.claim, block.owners.own ?? 0) : nil
      let call = table.begin(ticket: waiter.ticket)
      guard (held != nil) == (call != nil) else { return "the turn of \(waiter.ticket)" }
      guard let held, let call else { break }
      calls.append((held, waiter.side, call))
      block.leave(waiter.caller)
      waiters.remove(at: index)
    case 8:
      guard !waiters.isEmpty else { break }
      let waiter = waiters.remove(at: random.number(0...waiters.count - 1))
      sides[waiter.side].leave(waiter.caller)
      table.withdraw(ticket: waiter.ticket)
    default:
      let units = random.pick([1, 2, 3, 5])
      let limit = CallLimit(units, reserved: random.pick([0, 0, units - 1]))
      terms = SlotTerms(limit, places: 4, revision: terms.revision + 1)
      table.change(to: limit, places: 4)
      // Terms are in force from the next call on; this one takes no more than its turn.
      let expected = table.enter(CallClaim(), by: side, mayWait: false)
      switch (sides[side].enter(CallClaim(), terms), expected) {
      case (.begun(let held), .begun(let call)): calls.append((held, side, call))
      case (.busy, .busy): break
      case (let answer, let expected): return "\(answer), not \(expected), under \(limit)"
      }
    }
    if sides[side].usage != table.usage { return "\(sides[side].usage), not \(table.usage)" }
    let due = sides[side].due.flatMap { due in
      waiters.first { $0.caller.index == due.index }?.ticket
    }
    return due == table.due ? nil : "due is \(due ?? 0), not \(table.due ?? 0)"
  }
}

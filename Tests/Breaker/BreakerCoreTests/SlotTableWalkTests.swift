import Testing

@testable import BreakerCore

/// Random walks on which the table of slots and a naive one, which keeps everything that has happened and
/// counts from scratch, must agree at every step.
@Suite struct SlotTableWalkTests {
  @Test(arguments: Seed.all)
  func `the table of slots agrees with a naive one that counts from scratch`(seed: UInt64) {
    var walk = SlotWalk(seed: seed)
    for step in 0..<400 {
      let difference = walk.step()
      guard difference == nil else {
        Issue.record("seed \(seed), step \(step): \(difference ?? "")")
        return
      }
    }
  }

  @Test func `the walks reach every answer`() {
    var reached: Set<String> = []
    for seed in 1...UInt64(30) {
      var walk = SlotWalk(seed: seed)
      for _ in 0..<300 { _ = walk.step() }
      reached.formUnion(walk.reached)
    }
    #expect(reached == ["begun", "waiting", "busy", "turn", "no turn", "lost", "over the limit"])
  }
}

/// One walk of both tables.
private struct SlotWalk {
  var random: SplitMix
  var table: SlotTable<Int>
  var naive: NaiveSlots
  var reached: Set<String> = []

  init(seed: UInt64) {
    random = SplitMix(seed: seed)
    let (limit, places) = Self.shape(&random)
    table = SlotTable(limit, places: places)
    naive = NaiveSlots(limit: limit, places: places)
  }

  private static func shape(_ random: inout SplitMix) -> (CallLimit, Int) {
    let units = random.pick([1, 2, 3, 5, 8])
    let reserved = random.pick([0, 0, 1, units - 1])
    return (CallLimit(units, reserved: min(reserved, units - 1)), random.pick([0, 1, 3, 6]))
  }

  /// Takes a step, and returns where the tables differ.
  mutating func step() -> String? {
    switch Int.random(in: 0..<20, using: &random) {
    case 0..<8:
      let claim = CallClaim(
        units: random.pick([0, 1, 1, 1, 2, 3, 9]),
        priority: random.pick([.ordinary, .ordinary, .background]))
      let (owner, mayWait) = (random.pick([1, 2, 3, 4]), !random.oneIn(3))
      let entry = table.enter(claim, by: owner, mayWait: mayWait)
      switch entry {
      case .begun(let call):
        reached.insert("begun")
        if naive.mayBegin(claim) != true { return "\(claim) began" }
        naive.calls.append(.init(number: call, owner: owner, claim: claim, limit: naive.limit))
      case .waiting(let ticket):
        reached.insert("waiting")
        if naive.mayBegin(claim) || !naive.hasPlace || !mayWait { return "\(claim) waits" }
        naive.waiters.append(.init(ticket: ticket, owner: owner, claim: claim))
      case .busy:
        reached.insert("busy")
        if naive.mayBegin(claim) || (mayWait && naive.hasPlace) { return "\(claim) is busy" }
      }
    case 8..<12:
      guard let call = naive.calls.map(\.number).randomElement(using: &random) else { break }
      naive.calls.removeAll { $0.number == call }
      if !table.end(call) { return "call \(call) had ended" }
    case 12..<15:
      guard let waiter = naive.waiters.randomElement(using: &random) else { break }
      let call = table.begin(ticket: waiter.ticket)
      reached.insert(call == nil ? "no turn" : "turn")
      if (call != nil) != (naive.due == waiter.ticket) { return "the turn of \(waiter.ticket)" }
      if let call { naive.begin(waiter, as: call) }
    case 15:
      guard let waiter = naive.waiters.randomElement(using: &random) else { break }
      naive.waiters.removeAll { $0.ticket == waiter.ticket }
      if !table.withdraw(ticket: waiter.ticket) { return "no ticket \(waiter.ticket)" }
    case 16:
      guard let index = naive.waiters.indices.randomElement(using: &random) else { break }
      naive.waiters[index].isAbsent.toggle()
      table.note(ticket: naive.waiters[index].ticket, isAbsent: naive.waiters[index].isAbsent)
    case 17:
      let owner = random.pick([1, 2, 3, 4])
      let remains = table.expire { $0 == owner }
      let expected = naive.expire(owner)
      if remains.calls > 0 { reached.insert("lost") }
      if remains != expected { return "\(owner) left \(remains), not \(expected)" }
    default:
      let (limit, places) = Self.shape(&random)
      table.change(to: limit, places: places)
      (naive.limit, naive.places) = (limit, places)
      if table.usage.total > limit.units { reached.insert("over the limit") }
    }
    return difference
  }

  private var difference: String? {
    if table.usage != naive.usage { return "usage \(table.usage), not \(naive.usage)" }
    if table.due != naive.due { return "due \(table.due ?? 0), not \(naive.due ?? 0)" }
    let tickets = Set(table.waiters.map(\.place.ticket))
    return tickets == Set(naive.waiters.map(\.ticket)) ? nil : "waiters \(tickets)"
  }
}

/// A table that keeps lists and counts from scratch whenever it is asked.
private struct NaiveSlots {
  var limit: CallLimit
  var places: Int
  var calls: [Call] = []
  var waiters: [Waiter] = []

  struct Call {
    var number: Int64
    var owner: Int
    var claim: CallClaim

    /// The limit when the call began.
    var limit: CallLimit

    var units: Int {
      let most = claim.priority == .background ? limit.units - limit.reserved : limit.units
      return claim.units < 1 ? 1 : claim.units > most ? most : claim.units
    }
  }

  struct Waiter {
    var ticket: Int64
    var owner: Int
    var claim: CallClaim
    var isAbsent = false
  }

  var usage: SlotUsage {
    var usage = SlotUsage()
    for call in calls {
      if call.claim.priority == .background {
        usage.background += call.units
      } else {
        usage.ordinary += call.units
      }
    }
    return usage
  }

  /// Those who are served, in their order.
  private var present: [Waiter] {
    let present = waiters.filter { !$0.isAbsent }.sorted { $0.ticket < $1.ticket }
    return present.filter { $0.claim.priority == .ordinary }
      + present.filter { $0.claim.priority == .background }
  }

  var hasPlace: Bool { present.count < places }

  private func fits(_ claim: CallClaim) -> Bool {
    let units = Call(number: 0, owner: 0, claim: claim, limit: limit).units
    if usage.ordinary + usage.background + units > limit.units { return false }
    return claim.priority == .ordinary || usage.background + units <= limit.units - limit.reserved
  }

  /// Whether a caller that arrives now may begin at once.
  func mayBegin(_ claim: CallClaim) -> Bool {
    let isBehind =
      claim.priority == .background
      ? !present.isEmpty : present.contains { $0.claim.priority == .ordinary }
    return !isBehind && fits(claim)
  }

  var due: Int64? { present.first.flatMap { fits($0.claim) ? $0.ticket : nil } }

  mutating func begin(_ waiter: Waiter, as call: Int64) {
    waiters.removeAll { $0.ticket == waiter.ticket }
    calls.append(.init(number: call, owner: waiter.owner, claim: waiter.claim, limit: limit))
  }

  mutating func expire(_ owner: Int) -> SlotTable<Int>.Remains {
    let before = (calls.count, waiters.count)
    calls.removeAll { $0.owner == owner }
    waiters.removeAll { $0.owner == owner }
    return .init(calls: before.0 - calls.count, waiters: before.1 - waiters.count)
  }
}

import BreakerCore

/// The rules of slots as lists, which are counted from scratch at each question.
struct SlotOracle {
  var limit: CallLimit
  var places: Int

  /// How many units have succeeded in the ramp; nil if there is none.
  var succeeded: Int?
  var calls: [Call] = []

  /// The callers that wait, in the order in which they came.
  var waiters: [Waiter] = []

  struct Call {
    var number: Int
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
    var number: Int
    var owner: Int
    var claim: CallClaim
    var isAbsent = false
  }

  init(limit: CallLimit, places: Int) {
    self.limit = limit
    self.places = places
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

  /// The callers that are awake, in the order in which they are served.
  private var present: [Waiter] {
    let present = waiters.filter { !$0.isAbsent }
    return present.filter { $0.claim.priority == .ordinary }
      + present.filter { $0.claim.priority == .background }
  }

  var hasPlace: Bool { present.count < places }

  private func fits(_ claim: CallClaim) -> Bool {
    let units = Call(number: 0, owner: 0, claim: claim, limit: limit).units
    let total = usage.ordinary + usage.background
    if total + units > limit.units { return false }
    if let succeeded, total > 0, total + units > succeeded + 1 { return false }
    return claim.priority == .ordinary || usage.background + units <= limit.units - limit.reserved
  }

  /// Whether a caller that arrives now may begin at once.
  func mayBegin(_ claim: CallClaim) -> Bool {
    let isBehind =
      claim.priority == .background
      ? !present.isEmpty : present.contains { $0.claim.priority == .ordinary }
    return !isBehind && fits(claim)
  }

  /// The caller that may begin now; nil if none waits, or if there is no room for it.
  var due: Int? { present.first.flatMap { fits($0.claim) ? $0.number : nil } }

  mutating func begin(_ claim: CallClaim, of owner: Int, as number: Int) {
    calls.append(.init(number: number, owner: owner, claim: claim, limit: limit))
  }

  /// Ends an owner, and returns the calls and the waiters that it had.
  mutating func expire(_ owner: Int) -> (calls: [Int], waiters: [Int]) {
    let left = (
      calls: calls.filter { $0.owner == owner }.map(\.number),
      waiters: waiters.filter { $0.owner == owner }.map(\.number)
    )
    calls.removeAll { $0.owner == owner }
    waiters.removeAll { $0.owner == owner }
    return left
  }
}

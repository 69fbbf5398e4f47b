/// The calls under way on a breaker with a limit, and the callers that wait for room.
///
/// It is the whole of a limit as a plain value: which callers may begin, which wait, and which is
/// next. A store in memory keeps one; processes that share a store keep the same in shared memory,
/// and follow the rules of `CallLimit` and `WaitingPlace` too.
package struct SlotTable<Owner: Hashable & Sendable>: Sendable {
  /// The limit in force.
  package private(set) var limit: CallLimit

  /// How many callers may wait.
  package private(set) var places: Int

  package private(set) var calls: [Int64: Call] = [:]

  /// The callers that wait, in the order in which they are served.
  package private(set) var waiters: [Waiter] = []
  package private(set) var usage = SlotUsage()
  private var lastNumber: Int64 = 0

  package init(_ limit: CallLimit, places: Int = 0) {
    self.limit = limit
    self.places = places
  }

  /// A call under way.
  package struct Call: Sendable, Hashable {
    package var owner: Owner
    package var priority: CallPriority

    /// How many units it took when it began; a change of the limit does not change that.
    package var weight: Int
  }

  /// A caller that waits.
  package struct Waiter: Sendable, Hashable {
    package var owner: Owner
    package var claim: CallClaim
    package var place: WaitingPlace

    /// Whether it missed its turn: it keeps its ticket, but no other caller waits for it.
    package var isAbsent = false
  }

  /// The answer to a caller.
  package enum Entry: Sendable, Hashable {
    /// The call may begin; it ends with this number.
    case begun(Int64)

    /// The caller has this ticket.
    case waiting(ticket: Int64)

    /// There is no room, and no place to wait.
    case busy
  }

  /// The calls and places that owners left behind when they ended.
  package struct Remains: Sendable, Hashable {
    /// How many calls were under way.
    package var calls = 0

    /// How many callers were waiting.
    package var waiters = 0
  }
}

/// Coming and going.
extension SlotTable {
  /// Asks for room for one call, which begins at once if there is any and no caller goes before it.
  package mutating func enter(_ claim: CallClaim, by owner: Owner, mayWait: Bool) -> Entry {
    let place = WaitingPlace(claim.priority, ticket: lastNumber + 1)
    let isFirst = first.map { place < $0.place } ?? true
    if isFirst, limit.hasRoom(for: claim, beside: usage) { return .begun(begin(claim, by: owner)) }
    guard mayWait, waiters.count(where: { !$0.isAbsent }) < places else { return .busy }
    lastNumber += 1
    insert(Waiter(owner: owner, claim: claim, place: place))
    return .waiting(ticket: place.ticket)
  }

  /// Lets a caller that waits begin; nil unless it is its turn and there is room.
  package mutating func begin(ticket: Int64) -> Int64? {
    guard due == ticket, let index = index(of: ticket) else { return nil }
    let waiter = waiters.remove(at: index)
    return begin(waiter.claim, by: waiter.owner)
  }

  /// Ends a call; false if it has ended before.
  @discardableResult package mutating func end(_ call: Int64) -> Bool {
    guard let ended = calls.removeValue(forKey: call) else { return false }
    usage[ended.priority] -= ended.weight
    return true
  }

  /// Gives up a place, for whatever reason; false if there is none with this ticket.
  @discardableResult package mutating func withdraw(ticket: Int64) -> Bool {
    guard let index = index(of: ticket) else { return false }
    waiters.remove(at: index)
    return true
  }

  /// Notes that a caller missed its turn, or that it is back.
  package mutating func note(ticket: Int64, isAbsent: Bool) {
    if let index = index(of: ticket) { waiters[index].isAbsent = isAbsent }
  }

  /// Frees the calls and places of owners that are gone.
  package mutating func expire(isGone: (Owner) -> Bool) -> Remains {
    var remains = Remains()
    for (number, call) in calls where isGone(call.owner) {
      end(number)
      remains.calls += 1
    }
    let before = waiters.count
    waiters.removeAll { isGone($0.owner) }
    remains.waiters = before - waiters.count
    return remains
  }

  /// Changes the limit; no call is interrupted, and no waiting caller is sent away.
  package mutating func change(to limit: CallLimit, places: Int) {
    self.limit = limit
    self.places = places
  }

  /// The ticket of the caller that may begin now; nil if there is none, or no room for it.
  package var due: Int64? {
    first.flatMap { limit.hasRoom(for: $0.claim, beside: usage) ? $0.place.ticket : nil }
  }

  private var first: Waiter? { waiters.first { !$0.isAbsent } }

  private func index(of ticket: Int64) -> Int? {
    waiters.firstIndex { $0.place.ticket == ticket }
  }

  private mutating func begin(_ claim: CallClaim, by owner: Owner) -> Int64 {
    lastNumber += 1
    let call = Call(owner: owner, priority: claim.priority, weight: limit.weight(of: claim))
    usage[call.priority] += call.weight
    calls[lastNumber] = call
    return lastNumber
  }

  private mutating func insert(_ waiter: Waiter) {
    let index = waiters.firstIndex { waiter.place < $0.place } ?? waiters.endIndex
    waiters.insert(waiter, at: index)
  }
}

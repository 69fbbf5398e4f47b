import Testing

@testable import BreakerCore

/// How many calls may be under way at once, and which caller is next.
@Suite struct CallLimitTests {
  @Test func `there is room as long as no more units than the limit are under way`() {
    for units in 1...4 {
      let limit = CallLimit(units)
      for busy in 0...6 {
        for weight in 1...units {
          let usage = SlotUsage(ordinary: busy)
          let claim = CallClaim(units: weight)
          #expect(limit.hasRoom(for: claim, beside: usage) == (busy + weight <= units))
        }
      }
    }
  }

  @Test func `a call of one unit that may use the whole limit is an ordinary one`() {
    #expect(CallClaim().isOneOrdinaryUnit)
    #expect(!CallClaim(units: 2).isOneOrdinaryUnit)
    #expect(!CallClaim(priority: .background).isOneOrdinaryUnit)
  }

  @Test func `background calls never take what is reserved, and ordinary calls may take all`() {
    for units in 2...5 {
      for reserved in 0..<units {
        let limit = CallLimit(units, reserved: reserved)
        for ordinary in 0...units {
          for background in 0...(units - ordinary) {
            let usage = SlotUsage(ordinary: ordinary, background: background)
            let isFull = ordinary + background == units
            let ordinaryRoom = limit.hasRoom(for: CallClaim(), beside: usage)
            let backgroundRoom = limit.hasRoom(
              for: CallClaim(priority: .background), beside: usage)
            #expect(ordinaryRoom == !isFull)
            #expect(backgroundRoom == (!isFull && background < units - reserved))
          }
        }
      }
    }
  }

  @Test func `a call that is heavier than the limit takes all that it may take`() {
    let limit = CallLimit(4, reserved: 1)
    let heavy = CallClaim(units: 9)
    #expect(limit.weight(of: heavy) == 4)
    #expect(limit.hasRoom(for: heavy, beside: SlotUsage()))
    #expect(!limit.hasRoom(for: heavy, beside: SlotUsage(ordinary: 1)))
    #expect(limit.weight(of: CallClaim(units: 9, priority: .background)) == 3)
    #expect(limit.weight(of: CallClaim(units: -3)) == 1)
  }

  @Test func `after the limit was lowered there is no room until enough calls have ended`() {
    let table = Slots(CallLimit(4))
    let calls = (0..<4).map { table.begun(CallClaim(), by: $0) }
    table.change(to: CallLimit(2), places: 0)
    #expect(table.usage.total == 4)
    for call in calls.prefix(2) {
      #expect(table.end(call!))
      #expect(table.enter(CallClaim(), by: 9, mayWait: false) == .busy)
    }
    #expect(table.end(calls[2]!))
    #expect(table.begun(CallClaim(), by: 9) != nil)
    #expect(table.usage.total == 2)
  }

  @Test func `a call ends once`() {
    let table = Slots(CallLimit(1))
    let call = table.begun(CallClaim(), by: 1)!
    #expect(table.end(call))
    #expect(!table.end(call))
    #expect(table.usage.total == 0)
    #expect(!table.withdraw(ticket: 99))
    table.note(ticket: 99, isAbsent: true)
  }

  @Test func `callers are served in the order of arrival, and ordinary ones before background`()
    throws
  {
    let table = Slots(CallLimit(1), places: 4)
    var call = table.begun(CallClaim(), by: 0)
    let background = table.waiting(CallClaim(priority: .background), by: 1)
    let first = table.waiting(CallClaim(), by: 2)
    let second = table.waiting(CallClaim(), by: 3)
    let late = table.waiting(CallClaim(priority: .background), by: 4)
    #expect(table.enter(CallClaim(), by: 5, mayWait: true) == .busy)
    for ticket in try [first, second, background, late].map({ try #require($0) }) {
      #expect(table.due == nil)
      #expect(table.begin(ticket: ticket) == nil)
      table.end(try #require(call))
      #expect(table.due == ticket)
      #expect(table.enter(CallClaim(priority: .background), by: 6, mayWait: false) == .busy)
      call = table.begin(ticket: ticket)
    }
    #expect(table.tickets.isEmpty)
  }

  @Test func `light callers do not overtake a heavy one`() {
    let table = Slots(CallLimit(3), places: 9)
    let calls = (0..<3).map { table.begun(CallClaim(), by: $0)! }
    let heavy = table.waiting(CallClaim(units: 3), by: 7)!
    let light = table.waiting(CallClaim(), by: 8)!
    table.end(calls[0])
    table.end(calls[1])
    #expect(table.due == nil)
    #expect(table.begin(ticket: light) == nil)
    #expect(table.enter(CallClaim(), by: 9, mayWait: false) == .busy)
    table.end(calls[2])
    #expect(table.begin(ticket: heavy) != nil)
    #expect(table.due == nil)
  }

  @Test func `no caller waits for one that missed its turn, which keeps its ticket`() {
    let table = Slots(CallLimit(1), places: 2)
    let call = table.begun(CallClaim(), by: 0)!
    let stopped = table.waiting(CallClaim(), by: 1)!
    let next = table.waiting(CallClaim(), by: 2)!
    table.end(call)
    table.note(ticket: stopped, isAbsent: true)
    #expect(table.due == next)
    let late = table.waiting(CallClaim(), by: 3)!
    #expect(table.begin(ticket: stopped) == nil)
    table.note(ticket: stopped, isAbsent: false)
    #expect(table.begin(ticket: stopped) != nil)
    #expect(table.withdraw(ticket: next))
    #expect(table.tickets == [late])
  }

  @Test func `the end of an owner frees its calls and its places`() {
    let table = Slots(CallLimit(3), places: 3)
    _ = table.begun(CallClaim(units: 2, priority: .background), by: 1)
    _ = table.begun(CallClaim(), by: 2)
    _ = table.waiting(CallClaim(), by: 1)
    let other = table.waiting(CallClaim(), by: 2)!
    #expect(table.expire { $0 == 1 } == .init(calls: 1, waiters: 1))
    #expect(table.usage == SlotUsage(ordinary: 1))
    #expect(table.due == other)
    #expect(table.expire { $0 == 1 } == .init())
  }

  @Test func `a policy says how many units may be under way, and how many callers wait`() throws {
    var policy = BreakerPolicy()
    #expect(policy.limit == nil && policy.placesToWait == 0)
    policy.maxConcurrent = 4
    #expect(policy.limit == CallLimit(4, reserved: 0))
    policy.reserve = 1
    #expect(policy.limit == CallLimit(4, reserved: 1))
    // Without queue-timeout no caller waits, whatever the length of the queue.
    policy.queue = 7
    #expect(policy.placesToWait == 0)
    #expect(policy.text(for: .queue) == "7")
    policy.queueTimeout = .seconds(1)
    #expect(policy.placesToWait == 7)
    #expect(PolicyWords(of: policy).values[.queue] == "7")
    policy.queue = nil
    #expect(policy.placesToWait == 1_024)
    #expect(policy.text(for: .queue) == "1024")
    #expect(PolicyWords(of: policy).values[.queue] == nil)
  }

  @Test func `words name the causes of a rejection, and what lost calls may be`() {
    #expect(RejectionCause.allCases.map(\.wireName) == ["open", "busy"])
    #expect(PolicyKey.lostCalls.words == ["ignored", "failure"])
    #expect(PolicyKey.maxConcurrent.words.isEmpty)
  }
}

/// A table behind a reference, so that an expectation can ask it to change.
private final class Slots {
  private var table: SlotTable<Int>

  init(_ limit: CallLimit, places: Int = 0) { table = SlotTable(limit, places: places) }

  var usage: SlotUsage { table.usage }
  var due: Int64? { table.due }
  var tickets: [Int64] { table.waiters.map(\.place.ticket) }

  func enter(_ claim: CallClaim, by owner: Int, mayWait: Bool) -> SlotTable<Int>.Entry {
    table.enter(claim, by: owner, mayWait: mayWait)
  }

  /// The number of a call that may begin at once.
  func begun(_ claim: CallClaim, by owner: Int) -> Int64? {
    switch enter(claim, by: owner, mayWait: false) {
    case .begun(let call): call
    case .waiting, .busy: nil
    }
  }

  /// The ticket of a caller that has to wait.
  func waiting(_ claim: CallClaim, by owner: Int) -> Int64? {
    switch enter(claim, by: owner, mayWait: true) {
    case .waiting(let ticket): ticket
    case .begun, .busy: nil
    }
  }

  func begin(ticket: Int64) -> Int64? { table.begin(ticket: ticket) }
  @discardableResult func end(_ call: Int64) -> Bool { table.end(call) }
  func withdraw(ticket: Int64) -> Bool { table.withdraw(ticket: ticket) }
  func note(ticket: Int64, isAbsent: Bool) { table.note(ticket: ticket, isAbsent: isAbsent) }
  func expire(_ isGone: (Int) -> Bool) -> SlotTable<Int>.Remains { table.expire(isGone: isGone) }
  func change(to limit: CallLimit, places: Int) { table.change(to: limit, places: places) }
}

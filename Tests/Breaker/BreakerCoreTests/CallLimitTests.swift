import Testing

@_spi(Command) @testable import BreakerCore

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
    var usage = SlotUsage()
    usage[.ordinary] += 3
    usage[.background] += 1
    let lowered = CallLimit(2)
    for _ in 0..<3 {
      #expect(!lowered.hasRoom(for: CallClaim(), beside: usage))
      usage[.ordinary] -= usage[.ordinary] > 0 ? 1 : 0
    }
    #expect(usage.total == 1 && usage[.background] == 1)
    #expect(lowered.hasRoom(for: CallClaim(), beside: usage))
  }

  @Test func `callers are served in the order of arrival, and ordinary ones before background`() {
    let served = [
      WaitingPlace(.ordinary, ticket: 2), WaitingPlace(.ordinary, ticket: 9),
      WaitingPlace(.background, ticket: 1), WaitingPlace(.background, ticket: 3),
    ]
    for (first, one) in served.enumerated() {
      for (second, other) in served.enumerated() {
        #expect((one < other) == (first < second))
      }
    }
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

  @Test func `without a limit there is as much room as a ramp can bound`() {
    #expect(BreakerPolicy(maxConcurrent: 4, reserve: 1).room == CallLimit(4, reserved: 1))
    #expect(BreakerPolicy().room == CallLimit(1_024))
  }

  @Test func `calls are bounded by max-concurrent, by a rate, and by nothing else`() {
    #expect(BreakerPolicy(maxConcurrent: 4).boundsCalls)
    #expect(BreakerPolicy(rate: .calls(5, per: .minute)).boundsCalls)
    #expect(!BreakerPolicy(rampUp: .seconds(10), queueTimeout: .seconds(10)).boundsCalls)
  }

  @Test func `words name the causes of a rejection, and what lost calls may be`() {
    #expect(
      RejectionCause.allCases.map(\.rawValue) == [
        "open", "held", "ramping", "busy", "rate", "retry_budget",
      ])
    #expect(PolicyKey.lostCalls.words == ["ignored", "failure"])
    #expect(PolicyKey.maxConcurrent.words.isEmpty)
  }
}

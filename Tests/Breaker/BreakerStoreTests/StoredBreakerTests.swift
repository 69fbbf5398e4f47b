import BreakerCore
import Testing

@testable import BreakerStore

@Suite struct StoredBreakerTests {
  @Test func `a copy of a breaker keeps its record when the other one changes`() {
    var first = StoredBreaker(id: 1, name: "api", createdAtMilliseconds: 0)
    first.record.lastError = "refused"
    let second = first
    #expect(first == second)
    first.record.consecutiveFailures = 3
    first.record.failureTimes.append(Instant(nanoseconds: 1))
    #expect(second.record.consecutiveFailures == 0)
    #expect(second.record.failureTimes.isEmpty)
    #expect(second.record.lastError == "refused")
    #expect(first != second)
    var third = first
    third.record.consecutiveFailures = 0
    third.record.failureTimes = []
    #expect(first.record.consecutiveFailures == 3)
    // Equal, and hashed alike, though each has a record of its own.
    #expect(second == third)
    #expect(second.hashValue == third.hashValue)
  }

  @Test(arguments: [("", ""), ("api", "api"), (String(repeating: "x", count: 40), "x")])
  func `names are the same if their bytes are`(left: String, right: String) {
    #expect((NameBytes(left) == NameBytes(right)) == (left == right))
    #expect(NameBytes(left) == NameBytes(String(left.reversed().reversed())))
  }

  @Test func `names of different bytes differ, though Swift finds the texts equal`() {
    #expect("\u{e9}" == "e\u{301}")
    #expect(NameBytes("\u{e9}") != NameBytes("e\u{301}"))
  }
}

import BreakerCore
import Testing

@Suite struct CountedNounTests {
  @Test func `only a count of one has a noun in the singular`() {
    #expect(CountedNoun.text(0, "call") == "0 calls")
    #expect(CountedNoun.text(1, "call") == "1 call")
    #expect(CountedNoun.text(Int64(2), "consecutive failure") == "2 consecutive failures")
  }

  @Test func `a noun that does not only take an s brings its own plural`() {
    #expect(CountedNoun.text(1, "policy", plural: "policies") == "1 policy")
    #expect(CountedNoun.text(3, "policy", plural: "policies") == "3 policies")
  }
}

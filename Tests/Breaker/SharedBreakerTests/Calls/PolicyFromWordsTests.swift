import SharedBreaker
import Testing

@Suite struct PolicyFromWordsTests {
  @Test func `a policy from words changes only what the words name`() throws {
    let policy = try BreakerPolicy(words: "max-failures=3 open-for=1m", over: .database)
    var expected = BreakerPolicy.database
    expected.maxFailures = 3
    expected.openFor = .seconds(60)
    #expect(policy == expected)
    #expect(try BreakerPolicy(words: "") == BreakerPolicy())
    #expect(try BreakerPolicy(words: "open-max=none", over: .database).openMax == nil)
  }

  @Test(arguments: [
    ("max-failure=3", "unknown policy key max-failure: use one of max-failures"),
    ("max-failures", "unknown policy key max-failures: use one of"),
    ("max-failures=three", "max-failures cannot be 'three': use a whole number such as 5, or none"),
    ("open-for=none", "open-for cannot be 'none': use a time such as 250ms"),
    ("open-for=1m open-for=2m", "open-for is set twice: set it once"),
    ("a\nb=1 a\nb=2", #"a\u{a}b is set twice: set it once"#),
    ("open-for=1h open-max=1m", "open-max 1m is less than open-for 1h: use at least that"),
    ("failures=3", "failures is set without within: set both"),
  ])
  func `every mistake in the words of a policy is named`(words: String, complaint: String) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(words: words) }
    #expect(error?.description.hasPrefix(complaint) == true, "\(error?.description ?? "")")
  }
}

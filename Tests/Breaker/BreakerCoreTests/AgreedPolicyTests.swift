import Testing

@testable import BreakerCore

/// Which policy is in force, from the words of code and of operators.
@Suite struct AgreedPolicyTests {
  private func declare(
    _ declaration: String, over words: inout AgreedWords, isNew: Bool = true
  ) -> (isInForce: Bool, events: [String]) {
    let step = words.declared(declaration, isNew: isNew, at: .start)
    return (step.answer, step.events.map { "\($0.arrow), \($0.reason ?? "")" })
  }

  @Test func `the first declaration comes into force without an event`() {
    for isNew in [true, false] {
      var words = AgreedWords(operator: "probes=2")
      let done = declare("max-failures=3", over: &words, isNew: isNew)
      #expect(done == (true, []))
      #expect(words == AgreedWords(code: "max-failures=3", operator: "probes=2"))
    }
  }

  @Test func `a new declaration replaces another one, and the history says so`() {
    var words = AgreedWords(code: "max-failures=3")
    let done = declare("max-failures=4", over: &words)
    #expect(done == (true, ["policy:max-failures=3>max-failures=4, declared by code"]))
    #expect(words.code == "max-failures=4")
    #expect(declare("max-failures=4", over: &words) == (false, []))
  }

  @Test func `an earlier declaration does not come back against a later one`() {
    var words = AgreedWords(code: "max-failures=4")
    #expect(declare("max-failures=3", over: &words, isNew: false) == (false, []))
    #expect(words.code == "max-failures=4")
  }

  @Test func `an operator's values win over the code's until they are unset`() throws {
    var words = AgreedWords(code: "max-failures=3 open-for=1m")
    let set = try words.overridden(
      set: [.maxFailures: "9", .probes: "2"], unset: [], at: .start)
    #expect(set.events.map(\.arrow) == ["policy:>max-failures=9 probes=2"])
    #expect(set.events.map(\.reason) == ["set by an operator"])
    let agreed = AgreedPolicy(words)
    #expect(agreed.policy == BreakerPolicy(maxFailures: 9, openFor: .seconds(60), probes: 2))
    #expect(agreed.operatorValues == [.maxFailures: "9", .probes: "2"])
    #expect(agreed.codeKeys == [.maxFailures, .openFor])

    _ = try words.overridden(set: [.probes: "3"], unset: [.maxFailures], at: .start)
    #expect(words.operator == "probes=3")
    let unset = try words.overridden(set: [:], unset: [.probes], at: .start)
    #expect(unset.events.map(\.arrow) == ["policy:probes=3>"])
    #expect(words == AgreedWords(code: "max-failures=3 open-for=1m"))
    #expect(try words.overridden(set: [:], unset: [.probes], at: .start).events.isEmpty)
  }

  @Test func `an operator's values that make no valid policy change nothing`() {
    var words = AgreedWords(code: "open-for=1m", operator: "probes=2")
    let before = words
    for values in [
      [PolicyKey.probes: "many"], [.maxFailures: "3 probes=9"], [.openMax: "1s"],
    ] {
      #expect(throws: PolicyError.self) {
        try words.overridden(set: values, unset: [], at: .start)
      }
    }
    #expect(words == before)
  }

  @Test func `an operator's values that no longer fit the code's are ignored`() {
    let agreed = AgreedPolicy(AgreedWords(code: "open-for=1m", operator: "open-max=30s"))
    #expect(agreed.policy == BreakerPolicy(openFor: .seconds(60)))
    #expect(agreed.operatorValues == [.openMax: "30s"])
  }

  @Test func `words that cannot be read leave the default policy in force`() {
    for words in [AgreedWords(code: "no=policy"), AgreedWords(operator: "?"), AgreedWords()] {
      let agreed = AgreedPolicy(words)
      #expect(agreed.policy == BreakerPolicy())
      #expect(agreed.operatorValues.isEmpty)
      #expect(agreed.codeKeys.isEmpty)
    }
    #expect(AgreedPolicy.unsaid == AgreedPolicy(AgreedWords()))
  }

  @Test func `policies of the same words are equal`() {
    let one = AgreedPolicy(AgreedWords(code: "probes=2"))
    let same = AgreedPolicy(AgreedWords(code: "probes=2"))
    #expect(one == same)
    #expect(Set([one, same, AgreedPolicy(AgreedWords(operator: "probes=2"))]).count == 2)
  }

  @Test func `a backup replaces an operator's values, and a declaration if it has one`() {
    var words = AgreedWords(code: "probes=2", operator: "open-for=9s")
    let first = words.restored(to: AgreedWords(), because: "restored", at: .start)
    #expect(!first.answer)
    #expect(first.events.map(\.arrow) == ["policy:open-for=9s>"])
    #expect(first.events.map(\.reason) == ["restored"])
    #expect(words == AgreedWords(code: "probes=2"))

    let backup = AgreedWords(code: "probes=3", operator: "open-for=8s")
    let second = words.restored(to: backup, because: "restored", at: .start)
    #expect(second.answer)
    #expect(second.events.map(\.arrow) == ["policy:>open-for=8s"])
    #expect(words == backup)
    let third = words.restored(to: backup, because: "restored", at: .start)
    #expect(!third.answer && third.events.isEmpty)
  }

  @Test func `the words of a lost breaker do not replace existing ones`() {
    let lost = AgreedWords(code: "probes=2", operator: "open-for=9s")
    var empty = AgreedWords()
    empty.fill(from: lost)
    #expect(empty == lost)
    var full = AgreedWords(code: "probes=3", operator: "open-for=8s")
    full.fill(from: lost)
    #expect(full == AgreedWords(code: "probes=3", operator: "open-for=8s"))
  }

  @Test func `words from outside are checked, and written as the library writes them`() throws {
    let words = AgreedWords(code: "probes=2  max-failures=3", operator: " open-for=9s probes=4 ")
    #expect(
      try words.checked()
        == AgreedWords(code: "max-failures=3 probes=2", operator: "open-for=9s probes=4"))
    #expect(try AgreedWords(code: "", operator: "").checked() == AgreedWords(code: ""))
    #expect(try AgreedWords().checked() == AgreedWords())
    for wrong in [
      AgreedWords(code: "probes=0"), AgreedWords(operator: "?"),
      AgreedWords(code: "open-for=1m", operator: "open-max=30s"),
    ] {
      #expect(throws: PolicyError.self) { try wrong.checked() }
    }
  }
}

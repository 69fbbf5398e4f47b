@_spi(Command) @testable import BreakerCore
import Testing

@Suite struct PolicyTextTests {
  /// A value of each key that is not its default, in the form in which the library writes it.
  static let texts: [PolicyKey: String] = [
    .maxFailures: "7", .failures: "3", .within: "90s", .failureRate: "12.5%", .window: "1m",
    .last: "50", .minCalls: "20", .slowRate: "7%", .slowAfter: "250ms", .reporters: "2",
    .lumping: "10us", .openFor: "5m", .openMultiplier: "1.5", .openMax: "2h", .jitter: "10%",
    .holdFor: "2s", .holdMax: "1h", .rampUp: "10s",
    .probes: "3", .successesToClose: "4", .probeTimeout: "1d", .probeCalls: "9",
    .probeFailureRate: "33.3333%", .fleetQuorum: "3", .fleetSpread: "10s",
    .fleetHold: "yes",
    .maxConcurrent: "8", .reserve: "2", .queue: "20", .queueTimeout: "30s", .rate: "500/1m",
    .retryBudget: "20%",
    .lostCalls: "failure",
  ]

  static let garbage: [PolicyKey.Value: (text: String, form: String)] = [
    .count: ("5s", "a whole number such as 5"),
    .duration: ("5", "a time such as 250ms, 30s, 5m, 1h30m or 1d"),
    .rate: ("0.5", "a rate such as 50%"),
    .factor: ("2x", "a factor such as 1.5"),
    .countOrRate: ("3.5", "a whole number such as 3, or a rate such as 30%"),
    .callRate: ("500", "calls in a time such as 500/1m or 1/120ms"),
    .word: ("sometimes", "one of its words"),
  ]

  /// A policy with every rate set, so that every key applies.
  static let full = BreakerPolicy(failureRate: 0.5, slowRate: 0.5)

  @Test(arguments: PolicyKey.allCases)
  func `the value of every key reads back as it was written`(key: PolicyKey) throws {
    let text = try #require(Self.texts[key])
    var policy = Self.full
    #expect(policy.text(for: key) != text)
    try policy.set(key, to: text)
    #expect(policy.text(for: key) == text)
    var other = Self.full
    try other.set(key, to: policy.text(for: key) ?? "none")
    #expect(other == policy)
  }

  @Test(arguments: PolicyKey.allCases)
  func `none unsets an optional key and is refused for any other`(key: PolicyKey) throws {
    var policy = Self.full
    try policy.set(key, to: try #require(Self.texts[key]))
    guard key.isOptional else {
      let error = #expect(throws: PolicyError.self) { try policy.set(key, to: "none") }
      #expect(error?.description.hasSuffix("none") == false)
      return
    }
    try policy.set(key, to: "none")
    // Without a value, min-calls has a default that depends on other keys.
    let expected = key == .minCalls ? "10" : nil
    #expect(policy.text(for: key) == expected)
  }

  @Test(arguments: PolicyKey.allCases)
  func `an invalid value is refused with the expected form, and changes nothing`(
    key: PolicyKey
  ) throws {
    let (text, form) = try #require(Self.garbage[key.value])
    var policy = Self.full
    let error = #expect(throws: PolicyError.self) { try policy.set(key, to: text) }
    let words = key.words.isEmpty ? form : key.words.joined(separator: " or ")
    let none = key.isOptional ? ", or none" : ""
    #expect(error == PolicyError(key, "\(key.rawValue) cannot be '\(text)': use \(words)\(none)"))
    #expect(policy == Self.full)
  }

  @Test func `a quorum is a number of hosts or a share of them`() throws {
    var policy = BreakerPolicy()
    try policy.set(.fleetQuorum, to: "3")
    #expect(policy.fleetQuorum == .hosts(3))
    try policy.set(.fleetQuorum, to: "12.5%")
    #expect(policy.fleetQuorum == .share(0.125))
    #expect(PolicyWords(of: policy).description == "fleet-quorum=12.5%")
  }

  @Test func `the text of a key shows a default that depends on other keys`() {
    #expect(BreakerPolicy().text(for: .maxFailures) == "5")
    #expect(BreakerPolicy(failures: 3).text(for: .maxFailures) == nil)
    #expect(BreakerPolicy().text(for: .minCalls) == nil)
    #expect(BreakerPolicy(failureRate: 0.5, last: 4).text(for: .minCalls) == "4")
    #expect(BreakerPolicy(slowRate: 0.5, last: 40).text(for: .minCalls) == "10")
  }

  @Test func `the words of a policy are those that differ from the default`() {
    #expect(PolicyWords(of: BreakerPolicy()).values.isEmpty)
    #expect(PolicyWords(of: BreakerPolicy(maxFailures: 5)).description == "max-failures=5")
    let policy = BreakerPolicy(
      failures: 3, within: .seconds(60), failureRate: 0.5, last: 20, openFor: .seconds(5))
    #expect(
      PolicyWords(of: policy).description
        == "failures=3 within=1m failure-rate=50% last=20 open-for=5s")
  }

  @Test func `a policy survives being written as words, read back and applied`() throws {
    var random = SplitMix(seed: Seed.fixed)
    for _ in 0..<300 {
      let policy = RandomPolicy.draw(using: &random)
      let words = try PolicyWords(text: PolicyWords(of: policy).description)
      #expect(words == PolicyWords(of: policy))
      #expect(try words.applied(to: BreakerPolicy()) == policy)
    }
  }

  @Test func `words override the values of a policy, and none unsets a value`() throws {
    let policy = BreakerPolicy(maxFailures: 3, lumping: .seconds(1), openFor: .seconds(5))
    let words = try PolicyWords(text: " lumping=none  open-for=1m ")
    #expect(
      try words.applied(to: policy) == BreakerPolicy(maxFailures: 3, openFor: .seconds(60)))
    #expect(words.description == "lumping=none open-for=1m")
    #expect(try PolicyWords(text: "").values.isEmpty)
    #expect(PolicyWords().description.isEmpty)
    #expect(try PolicyWords(text: "probes=1 probes=2").values == [.probes: "2"])
  }

  @Test(arguments: [
    ("max-failures", "max-failures"), ("colour=red", "colour"), ("=5", ""),
    ("probes=1 x", "x"), ("Probes=1", "Probes"),
  ])
  func `a word that is not a key is refused by name`(text: String, name: String) {
    let error = #expect(throws: PolicyError.self) { try PolicyWords(text: text) }
    #expect(error?.key == name)
    #expect(error?.description.hasPrefix("unknown policy key \(name): use one of ") == true)
    #expect(error?.description.contains("max-failures") == true)
  }

  @Test(arguments: [
    ("probes=", "probes"), ("probes=1=2", "probes"), ("probes=0", "probes"),
    ("failures=3", "within"),
  ])
  func `words that do not form a valid policy are refused`(text: String, key: String) throws {
    let words = try PolicyWords(text: text)
    let error = #expect(throws: PolicyError.self) { try words.applied(to: BreakerPolicy()) }
    #expect(error?.key == key)
  }

  @Test func `code and the command line describe the same policy`() throws {
    let words = PolicyWords(Self.texts.filter { $0.key != .last && $0.key != .successesToClose })
    let policy = BreakerPolicy(
      maxFailures: 7, failures: 3, within: .seconds(90), failureRate: 0.125, slowRate: 0.07,
      slowAfter: .milliseconds(250), window: .seconds(60), minCalls: 20, reporters: 2,
      lumping: .microseconds(10), openFor: .seconds(300), openMultiplier: 1.5,
      openMax: .seconds(7_200), jitter: 0.1, holdFor: .seconds(2), holdMax: .seconds(3_600),
      rampUp: .seconds(10),
      probes: 3, probeTimeout: .seconds(86_400),
      probeCalls: 9, probeFailureRate: 0.333_333, fleetQuorum: .hosts(3), fleetSpread: .seconds(10),
      fleetHold: true,
      maxConcurrent: 8, reserve: 2, queue: 20, queueTimeout: .seconds(30),
      rate: .calls(500, per: .minute), retryBudget: 0.2, lostCalls: .failure)
    #expect(try words.applied(to: BreakerPolicy()) == policy)
  }
}

/// How many calls may begin in a time, as people write it.
@Suite struct CallRateTests {
  @Test(arguments: [
    ("500/1m", CallRate.calls(500, per: .minute), "500/1m"),
    ("500/m", .calls(500, per: .minute), "500/1m"),
    ("10/s", .calls(10, per: .second), "10/1s"),
    ("1/120ms", .calls(1, per: .milliseconds(120)), "1/120ms"),
    ("1000/1h30m", .calls(1_000, per: .seconds(5_400)), "1000/90m"),
    ("7/d", .calls(7, per: .day), "7/1d"),
    ("7/h", .calls(7, per: .hour), "7/1h"),
  ])
  func `a rate is read, and written in one way`(text: String, rate: CallRate, written: String) {
    #expect(CallRate(text) == rate)
    #expect(rate.description == written)
    #expect(CallRate(written) == rate)
  }

  @Test(arguments: [
    "", "/", "5", "5/", "/1m", "5/1", "5/1m/2", "-5/1m", "5.5/1m", "5 /1m", "5/ 1m", "5/x", "5/-1m",
    "99999999999999999999/1m", "5/99999999999999999999d", "five/1m",
  ])
  func `nothing else is a rate`(text: String) { #expect(CallRate(text) == nil) }
}

/// The words in which two policies differ.
@Suite struct PolicyDifferenceTests {
  @Test(arguments: [
    ("open-for=30s", "open-for=1m", "open-for 30s -> 1m"),
    ("", "probes=2", "+probes=2"),
    ("probes=2", "", "-probes=2"),
    ("probes=2 open-for=1m", "probes=2 open-for=1m", "no difference"),
    ("", "", "no difference"),
    (
      "max-failures=3 open-for=30s jitter=10%", "max-failures=3 open-for=1m probes=2",
      "open-for 30s -> 1m, -jitter=10%, +probes=2"
    ),
    ("last=50 failure-rate=50%", "failure-rate=none", "failure-rate 50% -> none, -last=50"),
  ])
  func `a difference has the words that differ and no others`(
    old: String, new: String, text: String
  ) {
    #expect(PolicyDifference(from: old, to: new).text() == text)
  }

  @Test func `a difference is in the order of the vocabulary, whatever order the policies have`() {
    let values = PolicyKey.allCases.map { ($0.rawValue, PolicyTextTests.texts[$0] ?? "") }
    let words = values.map { "\($0)=\($1)" }
    #expect(
      PolicyDifference(from: "", to: words.reversed().joined(separator: " ")).words
        == values.map { .added(key: $0, value: $1) })
    #expect(
      PolicyDifference(from: words.joined(separator: " "), to: "").words
        == values.map { .removed(key: $0, value: $1) })
  }

  @Test func `words of another version come last, and are compared like the others`() {
    let difference = PolicyDifference(
      from: "zeal=1 quota=3 bare probes=1", to: "quota=4 probes=2 ahead=a=b  bare")
    #expect(difference.text() == "probes 1 -> 2, +ahead=a=b, quota 3 -> 4, -zeal=1")
  }

  @Test func `the later one of two equal words counts, as in a policy`() {
    #expect(
      PolicyDifference(from: "probes=1 probes=2", to: "probes=3").text() == "probes 2 -> 3")
  }

  @Test func `the arrow of a difference can be another one`() {
    #expect(PolicyDifference(from: "probes=1", to: "probes=2").text(arrow: "→") == "probes 1 → 2")
  }
}

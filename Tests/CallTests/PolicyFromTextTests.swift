import Glibc
import SharedBreaker
import TestSupport
import Testing

@Suite struct `A policy from words` {
  @Test func `says only what differs from another one`() throws {
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
    ("open-for=1m open-for=2m", "open-for is said twice: say it once"),
    ("a\nb=1 a\nb=2", #"a\u{a}b is said twice: say it once"#),
    ("open-for=1h open-max=1m", "open-max 1m is less than open-for 1h: use at least that"),
    ("failures=3", "failures is set without within: say within which time"),
  ])
  func `names every mistake`(words: String, complaint: String) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(words: words) }
    #expect(error?.description.hasPrefix(complaint) == true, "\(error?.description ?? "")")
  }
}

@Suite struct `A policy from JSON` {
  @Test func `has numbers, times and rates as cbctl writes them`() throws {
    let text = """
      {"failure-rate": "12.5%", "window":"30s","min-calls" : 20,\t"open-multiplier": 1.5,
       "open-for":"250ms", "max-failures": null}
      """
    let policy = try BreakerPolicy(json: text, over: BreakerPolicy(maxFailures: 2))
    #expect(
      policy
        == BreakerPolicy(
          failureRate: 0.125, window: .seconds(30), minCalls: 20, openFor: .milliseconds(250),
          openMultiplier: 1.5))
    #expect(try BreakerPolicy(json: " { } \n") == BreakerPolicy())
  }

  @Test(arguments: [
    BreakerPolicy(), .http, .database, .localService, .device, .scheduledJob,
    BreakerPolicy(failures: 3, within: .seconds(9), reporters: 2, jitter: 0.125, probes: 7),
    BreakerPolicy(
      slowRate: 0.3, slowAfter: .milliseconds(1), last: 50, probeCalls: 4,
      probeFailureRate: 0.5),
  ])
  func `is read as it is written`(policy: BreakerPolicy) throws {
    let read = try BreakerPolicy(json: policy.json)
    #expect(read.json == policy.json)
    for key in PolicyKey.allCases { #expect(read.text(for: key) == policy.text(for: key)) }
  }

  @Test(arguments: [
    (#"{"open\u002dfor":"\u0031m"}"#, Duration.seconds(60)),
    (#"{"open-for":"1\u006D"}"#, .seconds(60)),
  ])
  func `may have escapes`(text: String, openFor: Duration) throws {
    #expect(try BreakerPolicy(json: text).openFor == openFor)
  }

  @Test(arguments: [
    (#"{"max-failure":3}"#, "unknown policy key max-failure: use one of"),
    (
      #"{"\ud83d\ude00\"\\\/\b\f\n\r\t":3}"#,
      #"unknown policy key 😀"\/\u{8}\u{c}\u{a}\u{d}\u{9}: use one of"#
    ),
    (#"{"open-for":"1\u2028m"}"#, #"open-for cannot be '1\u{2028}m': use a time"#),
    (#"{"max-failures":"3"}"#, "max-failures takes a number, such as 3"),
    (#"{"max-failures":true}"#, "max-failures takes a number, such as 3"),
    (#"{"max-failures":3.5}"#, "max-failures cannot be '3.5': use a whole number"),
    (#"{"max-failures":-3}"#, "max-failures cannot be '-3': use a whole number"),
    (#"{"max-failures":0}"#, "max-failures is 0: use 1 to 1000000"),
    (#"{"open-multiplier":1e3}"#, "open-multiplier cannot be '1e3': use a factor such as 1.5"),
    (#"{"probes":{}}"#, "probes takes a number, such as 3"),
    (#"{"probes":[1]}"#, "probes takes a number, such as 3"),
    (#"{"open-for":["30s"]}"#, #"open-for takes a time in quotes, such as "30s""#),
    (#"{"jitter":{"a":[]}}"#, #"jitter takes a rate in quotes, such as "50%""#),
    (#"{"open-for":30}"#, #"open-for takes a time in quotes, such as "30s""#),
    (#"{"open-for":false}"#, #"open-for takes a time in quotes, such as "30s""#),
    (#"{"open-for":null}"#, "open-for cannot be 'null': use a time"),
    (#"{"open-for":"30 s"}"#, "open-for cannot be '30 s': use a time"),
    (#"{"jitter":0.5}"#, #"jitter takes a rate in quotes, such as "50%""#),
    (#"{"jitter":true}"#, #"jitter takes a rate in quotes, such as "50%""#),
    (#"{"probes":1,"probes":1}"#, "probes is said twice: say it once"),
    (#"{"probes":1,"open-max":"1s"}"#, "open-max 1s is less than open-for 30s"),
  ])
  func `names every mistake in its words`(text: String, complaint: String) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(json: text) }
    #expect(error?.description.hasPrefix(complaint) == true, "\(error?.description ?? "")")
  }

  @Test(arguments: [
    ("", 1, "it has to begin with {"), ("[]", 1, "it has to begin with {"),
    ("{", 2, "a word in quotes is missing"), (#"{"probes""#, 10, "a : is missing"),
    (#"{"probes":"#, 11, "a value is missing"), (#"{"probes":1"#, 12, "a , or } is missing"),
    (#"{"probes":1,}"#, 13, "a word in quotes is missing"),
    (#"{"probes":1} x"#, 14, "there is more after the object"),
    (#"{"probes":[1}"#, 13, "a , or ] is missing"),
    (#"{"probes":nil}"#, 11, "a value is missing"), (#"{'probes':1}"#, 2, "a word in quotes"),
    (#"{"probes":01}"#, 12, "a number begins with 0"), (#"{"probes":-}"#, 12, "a digit is missing"),
    (#"{"probes":1.}"#, 13, "a digit is missing"), (#"{"probes":1e+}"#, 14, "a digit is missing"),
    (#"{"probes":+1}"#, 11, "a value is missing"), (#"{"probes"#, 9, "a string has no end"),
    (#"{"\x":1}"#, 4, "there is no such escape"), (#"{"\u12":1}"#, 5, "an escape needs four"),
    (#"{"\u+123":1}"#, 5, "an escape needs four"),
    (#"{"\ud83d":1}"#, 9, "half a character is missing"),
    (#"{"\ud83d\u0041":1}"#, 15, "half a character is missing"),
    (#"{"\ude00":1}"#, 9, "half a character is missing"),
    ("{\"a\u{1}\":1}", 4, "a control character in a string is not escaped"),
  ])
  func `names the place where it is not JSON`(text: String, byte: Int, complaint: String) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(json: text) }
    let expected = "not a JSON object of a policy, at byte \(byte): \(complaint)"
    #expect(error?.description.hasPrefix(expected) == true, "\(error?.description ?? "")")
  }
}

@Suite struct `A policy from the environment` {
  private let variables = [
    "WORDS": "max-failures=7 open-for=3s", "JSON": "\n{\"max-failures\":7,\"open-for\":\"3s\"}",
    "EMPTY": "", "WRONG": "{\"jitter\":1}",
  ]

  private func policy(_ variable: String, over base: BreakerPolicy) throws -> BreakerPolicy {
    try BreakerPolicy(environment: variable, over: base) { variables[$0] }
  }

  @Test(arguments: ["WORDS", "JSON"])
  func `is words or JSON, over another policy`(variable: String) throws {
    let policy = try policy(variable, over: .localService)
    #expect(policy.maxFailures == 7)
    #expect(policy.openFor == .seconds(3))
    #expect(policy.probeTimeout == BreakerPolicy.localService.probeTimeout)
  }

  @Test(arguments: [
    "max-failures=3 open-for=1m", #"{"max-failures": 3, "open-for": "1m", "open-max": null}"#,
    "failure-rate=none window=none min-calls=none open-for=1m max-failures=3",
  ])
  func `may take away what the other policy sets`(text: String) throws {
    let policy = try BreakerPolicy(environment: "ANY", over: .http) { _ in text }
    #expect(policy.maxFailures == 3)
    #expect(policy.openFor == .seconds(60))
  }

  @Test(arguments: ["UNSET", "EMPTY"])
  func `is the other policy where the variable says nothing`(variable: String) throws {
    #expect(try policy(variable, over: .device) == .device)
  }

  @Test func `says in which variable the mistake is`() throws {
    let error = #expect(throws: PolicyError.self) { try policy("WRONG", over: .device) }
    #expect(
      error?.description == #"WRONG: jitter takes a rate in quotes, such as "50%""#)
    #expect(error?.key == "jitter")
  }

  @Test func `is read from the process's own environment`() async {
    // In a process of its own: while others read the environment nobody may change it.
    await #expect(processExitsWith: .success) {
      unsafe setenv("PAYMENTS_BREAKER", "max-failures=7", 1)
      let policy = try BreakerPolicy(environment: "PAYMENTS_BREAKER")
      exit(policy.maxFailures == 7 ? 0 : 1)
    }
  }
}

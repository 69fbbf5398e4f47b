import SharedBreaker
import Testing

@Suite struct PolicyFromJSONTests {
  @Test func `a policy from JSON has numbers, times and rates as cbctl writes them`() throws {
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
    BreakerPolicy(fleetQuorum: .hosts(3), fleetSpread: .seconds(9)),
    BreakerPolicy(fleetQuorum: .share(0.3)),
  ])
  func `a policy is read from JSON as it is written`(policy: BreakerPolicy) throws {
    let read = try BreakerPolicy(json: policy.json)
    #expect(read.json == policy.json)
    for key in PolicyKey.allCases { #expect(read.text(for: key) == policy.text(for: key)) }
  }

  @Test(arguments: [
    (#"{"open\u002dfor":"\u0031m"}"#, Duration.seconds(60)),
    (#"{"open-for":"1\u006D"}"#, .seconds(60)),
  ])
  func `the JSON of a policy may contain escapes`(text: String, openFor: Duration) throws {
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
    (
      #"{"fleet-quorum":true}"#,
      #"fleet-quorum takes a number, such as 3, or a rate in quotes, such as "30%""#
    ),
    (
      #"{"fleet-quorum":[3]}"#,
      #"fleet-quorum takes a number, such as 3, or a rate in quotes, such as "30%""#
    ),
    (#"{"fleet-quorum":0.3}"#, "fleet-quorum cannot be '0.3': use a whole number such as 3, or a"),
    (#"{"open-for":30}"#, #"open-for takes a time in quotes, such as "30s""#),
    (#"{"open-for":false}"#, #"open-for takes a time in quotes, such as "30s""#),
    (#"{"open-for":null}"#, "open-for cannot be 'null': use a time"),
    (#"{"open-for":"30 s"}"#, "open-for cannot be '30 s': use a time"),
    (#"{"jitter":0.5}"#, #"jitter takes a rate in quotes, such as "50%""#),
    (#"{"jitter":true}"#, #"jitter takes a rate in quotes, such as "50%""#),
    (#"{"probes":1,"probes":1}"#, "probes is set twice: set it once"),
    (#"{"probes":1,"open-max":"1s"}"#, "open-max 1s is less than open-for 30s"),
  ])
  func `every mistake in the keys and values of a JSON policy is named`(
    text: String, complaint: String
  ) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(json: text) }
    #expect(error?.description.hasPrefix(complaint) == true, "\(error?.description ?? "")")
  }

  @Test(arguments: [
    ("", 1, "it must begin with {"), ("[]", 1, "it must begin with {"),
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
  func `text that is not JSON is refused with the byte where it goes wrong`(
    text: String, byte: Int, complaint: String
  ) {
    let error = #expect(throws: PolicyError.self) { try BreakerPolicy(json: text) }
    let expected = "not a JSON object of a policy, at byte \(byte): \(complaint)"
    #expect(error?.description.hasPrefix(expected) == true, "\(error?.description ?? "")")
  }
}

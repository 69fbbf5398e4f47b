import Testing

@testable import BreakerCore

@Suite struct PolicyValidationTests {
  /// A policy that is refused, the key that is to blame, and the message.
  struct Refused: Sendable, CustomTestStringConvertible {
    var key: PolicyKey
    var words: String
    var policy: BreakerPolicy

    init(_ key: PolicyKey, _ words: String, _ policy: BreakerPolicy) {
      (self.key, self.words, self.policy) = (key, words, policy)
    }

    var testDescription: String { words }
  }

  static let contradictions = [
    Refused(
      .within, "failures is set without within: set both", BreakerPolicy(failures: 3)),
    Refused(
      .failures, "within is set without failures: set both",
      BreakerPolicy(within: .seconds(1))),
    Refused(
      .last, "window and last are both set: set only one",
      BreakerPolicy(failureRate: 0.5, window: .seconds(1), last: 5)),
    Refused(
      .window, "a rate is set without window or last: set one of them",
      BreakerPolicy(failureRate: 0.5)),
    Refused(
      .window, "a rate is set without window or last: set one of them",
      BreakerPolicy(slowRate: 0.5, slowAfter: .seconds(1))),
    Refused(
      .window, "window is set without failure-rate or slow-rate: set one of them",
      BreakerPolicy(window: .seconds(1))),
    Refused(
      .last, "last is set without failure-rate or slow-rate: set one of them",
      BreakerPolicy(last: 5)),
    Refused(
      .minCalls, "min-calls is set without failure-rate or slow-rate: set one of them",
      BreakerPolicy(minCalls: 5)),
    Refused(
      .slowAfter, "slow-rate is set without slow-after: set both",
      BreakerPolicy(slowRate: 0.5, last: 5)),
    Refused(
      .openMax, "open-max 10s is less than open-for 30s: use at least that",
      BreakerPolicy(openMax: .seconds(10))),
    Refused(
      .probeFailureRate, "probe-calls is set without probe-failure-rate: set both",
      BreakerPolicy(probeCalls: 5)),
    Refused(
      .probeCalls, "probe-failure-rate is set without probe-calls: set both",
      BreakerPolicy(probeFailureRate: 0.5)),
    Refused(
      .successesToClose, "successes-to-close and probe-calls are both set: set only one",
      BreakerPolicy(successesToClose: 2, probeCalls: 5, probeFailureRate: 0.5)),
    Refused(
      .fleetQuorum, "fleet-quorum is 0: use 1 to 1000000", BreakerPolicy(fleetQuorum: .hosts(0))),
    Refused(
      .fleetQuorum, "fleet-quorum is 1000001: use 1 to 1000000",
      BreakerPolicy(fleetQuorum: .hosts(1_000_001))),
    Refused(
      .fleetQuorum, "fleet-quorum is 0%: use more than 0% and at most 100%",
      BreakerPolicy(fleetQuorum: .share(0.0))),
    Refused(
      .fleetQuorum, "fleet-quorum is 100.0001%: use more than 0% and at most 100%",
      BreakerPolicy(fleetQuorum: .share(1.000_001))),
    Refused(
      .fleetSpread, "fleet-spread is 366d: use 0s to 365d",
      BreakerPolicy(fleetSpread: .seconds(366 * 86_400))),
    Refused(
      .fleetSpread, "fleet-spread is -1s: use 0s to 365d", BreakerPolicy(fleetSpread: .seconds(-1))),
    Refused(
      .maxConcurrent, "reserve is set without max-concurrent: set both", BreakerPolicy(reserve: 1)),
    Refused(
      .rampUp, "ramp-up is 0s: use 1us to 365d", BreakerPolicy(rampUp: .zero)),
    Refused(
      .maxConcurrent, "lost-calls is set without max-concurrent: set both",
      BreakerPolicy(lostCalls: .failure)),
    Refused(
      .reserve,
      "reserve 4 leaves nothing of max-concurrent 4 to background calls: use less",
      BreakerPolicy(maxConcurrent: 4, reserve: 4)),
    Refused(
      .queueTimeout, "queue is set without queue-timeout: set both",
      BreakerPolicy(maxConcurrent: 4, queue: 1)),
    Refused(
      .retryBudget, "retry-budget is 0%: use more than 0% and at most 100%",
      BreakerPolicy(retryBudget: 0.0)),
    Refused(
      .rate, "rate 0/1s permits no call: use 1 or more, or 'cbctl trip' to stop all calls",
      BreakerPolicy(rate: .calls(0, per: .second))),
    Refused(
      .rate,
      "rate 65537/1s is of more than 65536 calls: use fewer in a shorter time, such as 1000/1ms",
      BreakerPolicy(rate: .calls(65_537, per: .second))),
    Refused(
      .rate, "rate 5/0s counts over 0s: use 1us to 365d, such as 500/1m",
      BreakerPolicy(rate: .calls(5, per: .zero))),
    Refused(
      .rate, "rate 5/366d counts over 366d: use 1us to 365d, such as 500/1m",
      BreakerPolicy(rate: .calls(5, per: .seconds(366 * 86_400)))),
    Refused(
      .queueTimeout, "queue-timeout is 366d: use 1us to 365d",
      BreakerPolicy(maxConcurrent: 4, queueTimeout: .seconds(366 * 86_400))),
  ]

  static let neverOpening = [
    Refused(
      .minCalls, "min-calls 11 is more than last 10: the breaker could never open",
      BreakerPolicy(failureRate: 0.5, last: 10, minCalls: 11)),
    Refused(
      .reporters, "reporters 11 is more than last 10: the breaker could never open",
      BreakerPolicy(failureRate: 0.5, last: 10, reporters: 11)),
    Refused(
      .lumping, "3 failures at least 5s apart do not fit within 10s: the breaker could never open",
      BreakerPolicy(failures: 3, within: .seconds(10), lumping: .seconds(5))),
    Refused(
      .lumping,
      "the 5 failures that the rate needs do not fit into the window at least 15s apart: "
        + "the breaker could never open",
      BreakerPolicy(failureRate: 0.5, window: .seconds(60), lumping: .seconds(15))),
  ]

  static func refusal(of policy: BreakerPolicy) -> PolicyError? {
    do throws(PolicyError) { try policy.validate() } catch { return error }
    return nil
  }

  @Test(arguments: contradictions + neverOpening)
  func `a policy that cannot work is refused with the reason`(refused: Refused) {
    #expect(Self.refusal(of: refused.policy) == PolicyError(refused.key, refused.words))
    #expect(Self.refusal(of: refused.policy).map { "\($0)" } == refused.words)
  }

  @Test(arguments: [
    BreakerPolicy(),
    BreakerPolicy(failures: 3, within: .seconds(10), lumping: .seconds(5) - .nanosecond),
    BreakerPolicy(failures: 1, within: .seconds(10), lumping: .seconds(99)),
    BreakerPolicy(
      failureRate: 0.5, window: .seconds(60), lumping: .seconds(15) - .nanosecond),
    BreakerPolicy(failureRate: 0.5, last: 10, minCalls: 10, reporters: 10, lumping: .seconds(99)),
    BreakerPolicy(
      slowRate: 0.5, slowAfter: .seconds(1), window: .seconds(60), lumping: .seconds(99)),
    BreakerPolicy(slowAfter: .seconds(1)),
    BreakerPolicy(openFor: .seconds(30), openMax: .seconds(30)),
    BreakerPolicy(probeCalls: 5, probeFailureRate: 1.0),
    BreakerPolicy(fleetQuorum: .hosts(1), fleetSpread: .zero),
    BreakerPolicy(fleetQuorum: .hosts(1_000_000), fleetSpread: .seconds(365 * 86_400)),
    BreakerPolicy(fleetQuorum: .share(0.000_001)), BreakerPolicy(fleetQuorum: .share(1.0)),
    BreakerPolicy(
      maxConcurrent: 1_024, reserve: 1_023, queue: 1_024, queueTimeout: .seconds(365 * 86_400),
      lostCalls: .failure),
    BreakerPolicy(maxConcurrent: 1, queueTimeout: .microseconds(1)),
  ])
  func `a policy that only just works is accepted`(policy: BreakerPolicy) {
    #expect(Self.refusal(of: policy) == nil)
  }

  /// Every count with its upper limit, on a policy in which that key may be set.
  @Test(arguments: [
    (PolicyKey.maxFailures, 1_000_000), (.failures, 1_000), (.last, 10_000),
    (.minCalls, 1_000_000), (.reporters, 64), (.probes, 1_000), (.successesToClose, 1_000_000),
    (.probeCalls, 1_000_000), (.maxConcurrent, 1_024), (.reserve, 1_023), (.queue, 1_024),
  ])
  func `a count is at least one and at most its key's limit`(key: PolicyKey, most: Int) throws {
    let base =
      switch key {
      case .failures: "failures=1 within=1d"
      case .last: "failure-rate=50% last=5"
      case .minCalls: "failure-rate=50% window=1h"
      case .probeCalls: "probe-calls=1 probe-failure-rate=50%"
      case .reserve: "max-concurrent=1024"
      case .queue: "max-concurrent=1 queue-timeout=1s"
      default: ""
      }
    for (count, isTaken) in [(0, false), (1, true), (most, true), (most + 1, false)] {
      var policy = try PolicyWords(text: base).applied(to: BreakerPolicy())
      try policy.set(key, to: "\(count)")
      let words = "\(key.rawValue) is \(count): use 1 to \(most)"
      #expect(Self.refusal(of: policy) == (isTaken ? nil : PolicyError(key, words)))
    }
  }

  @Test(arguments: [
    (PolicyKey.within, "failures=1"), (.slowAfter, ""), (.window, "failure-rate=50%"),
    (.lumping, ""), (.openFor, ""), (.openMax, "open-for=1us"), (.probeTimeout, ""),
  ])
  func `a duration is at least a microsecond and at most a year`(
    key: PolicyKey, base: String
  ) throws {
    var policy = BreakerPolicy()
    for (name, text) in try PolicyWords(text: base).values { try policy.set(name, to: text) }
    for text in ["1us", "365d"] {
      try policy.set(key, to: text)
      #expect(Self.refusal(of: policy) == nil)
    }
    for text in ["0s", "999ns", "31536000001ms"] {
      try policy.set(key, to: text)
      let words = "\(key.rawValue) is \(text): use 1us to 365d"
      #expect(Self.refusal(of: policy) == PolicyError(key, words))
    }
  }

  @Test(arguments: [PolicyKey.failureRate, .slowRate, .probeFailureRate])
  func `a rate is more than 0% and at most 100%`(key: PolicyKey) throws {
    let base = "slow-after=1s probe-calls=3 probe-failure-rate=50% last=9 failure-rate=50%"
    var policy = try PolicyWords(text: base).applied(to: BreakerPolicy())
    for text in ["0.0001%", "100%"] {
      try policy.set(key, to: text)
      #expect(Self.refusal(of: policy) == nil)
    }
    for text in ["0%", "100.0001%"] {
      try policy.set(key, to: text)
      let words = "\(key.rawValue) is \(text): use more than 0% and at most 100%"
      #expect(Self.refusal(of: policy) == PolicyError(key, words))
    }
  }

  @Test(arguments: [(0.0, true), (0.999_999, true), (1.0, false), (-0.5, false)])
  func `jitter is at least 0% and less than 100%`(share: Double, isTaken: Bool) {
    let policy = BreakerPolicy(jitter: BreakerPolicy.Rate(share))
    #expect(Self.refusal(of: policy)?.key == (isTaken ? nil : "jitter"))
  }

  @Test(arguments: [
    (1.0, true), (1_000, true), (0.999, false), (1_000.1, false), (.nan, false),
    (.infinity, false), (-1, false),
  ])
  func `the open multiplier is at least 1 and at most 1000`(multiplier: Double, isTaken: Bool) {
    let error = Self.refusal(of: BreakerPolicy(openMultiplier: multiplier))
    let words = "open-multiplier is \(multiplier): use 1 to 1000"
    #expect(error == (isTaken ? nil : PolicyError(.openMultiplier, words)))
  }
}

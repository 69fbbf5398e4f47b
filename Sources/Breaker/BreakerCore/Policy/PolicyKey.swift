/// The keys of a policy, the same on the command line, in JSON and in the file.
///
/// A later version may add cases, so end a `switch` over a key with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum PolicyKey: String, Sendable, Hashable, CaseIterable {
  case maxFailures = "max-failures"
  case failures
  case within
  case failureRate = "failure-rate"
  case window
  case last
  case minCalls = "min-calls"
  case slowRate = "slow-rate"
  case slowAfter = "slow-after"
  case reporters
  case lumping
  case openFor = "open-for"
  case openMultiplier = "open-multiplier"
  case openMax = "open-max"
  case jitter
  case holdFor = "hold-for"
  case holdMax = "hold-max"
  case rampUp = "ramp-up"
  case probes
  case successesToClose = "successes-to-close"
  case probeTimeout = "probe-timeout"
  case probeCalls = "probe-calls"
  case probeFailureRate = "probe-failure-rate"
  case fleetQuorum = "fleet-quorum"
  case fleetSpread = "fleet-spread"
  case fleetHold = "fleet-hold"
  case maxConcurrent = "max-concurrent"
  case reserve
  case queue
  case queueTimeout = "queue-timeout"
  case rate
  case retryBudget = "retry-budget"
  case lostCalls = "lost-calls"
}

extension PolicyKey {
  /// The kind of value that the key takes.
  ///
  /// A later version may add cases, so end a `switch` over it with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  @_spi(Command) public enum Value: Sendable, Hashable {
    /// A whole number.
    case count

    /// A time such as `250ms`, `30s`, `5m`, `2h` or `1d`.
    case duration

    /// A share such as `50%`.
    case rate

    /// A factor such as `1.5`.
    case factor

    /// A whole number, or a share such as `50%`.
    case countOrRate

    /// A number of calls in an interval, such as `500/1m`.
    case callRate

    /// One of a few words, such as `failure`.
    case word
  }

  /// The kind of value that the key takes.
  @_spi(Command) public var value: Value {
    switch self {
    case .maxFailures, .failures, .last, .minCalls, .reporters, .probes, .successesToClose,
      .probeCalls, .maxConcurrent, .reserve, .queue:
      .count
    case .within, .window, .slowAfter, .lumping, .openFor, .openMax, .holdFor, .holdMax,
      .rampUp, .probeTimeout, .fleetSpread, .queueTimeout:
      .duration
    case .failureRate, .slowRate, .jitter, .probeFailureRate, .retryBudget: .rate
    case .openMultiplier: .factor
    case .fleetQuorum: .countOrRate
    case .rate: .callRate
    case .fleetHold, .lostCalls: .word
    }
  }

  /// The words that a key of words takes; none for any other key.
  @_spi(Command) public var words: [String] {
    switch self {
    case .fleetHold: FlagText.words
    case .lostCalls: BreakerPolicy.LostCalls.allCases.map(\.rawValue)
    default: []
    }
  }

  /// Whether the key can be unset, which is written `none`.
  @_spi(Command) public var isOptional: Bool {
    switch self {
    case .maxFailures, .failures, .within, .failureRate, .window, .last, .minCalls, .slowRate,
      .slowAfter, .lumping, .openMax, .rampUp, .probeCalls, .probeFailureRate, .fleetQuorum,
      .fleetSpread,
      .maxConcurrent, .reserve, .queue, .queueTimeout, .rate, .retryBudget:
      true
    case .reporters, .openFor, .openMultiplier, .jitter, .holdFor, .holdMax, .probes,
      .successesToClose, .probeTimeout, .fleetHold, .lostCalls:
      false
    }
  }
}

extension BreakerPolicy {
  /// The effective value of a key, default included, as the command line writes it; nil if none.
  public func text(for key: PolicyKey) -> String? {
    switch key {
    case .maxFailures: consecutiveFailuresToOpen.map { String($0) }
    case .failures: failures.map { String($0) }
    case .within: within.map(DurationText.format)
    case .failureRate: failureRate.map(\.description)
    case .window: window.map(DurationText.format)
    case .last: last.map { String($0) }
    case .minCalls: failureRate == nil && slowRate == nil ? nil : String(callsToJudge)
    case .slowRate: slowRate.map(\.description)
    case .slowAfter: slowAfter.map(DurationText.format)
    case .reporters: String(reporters)
    case .lumping: lumping.map(DurationText.format)
    case .openFor: DurationText.format(openFor)
    case .openMultiplier: FactorText.format(openMultiplier)
    case .openMax: openMax.map(DurationText.format)
    case .jitter: jitter.description
    case .holdFor: DurationText.format(holdFor)
    case .holdMax: DurationText.format(holdMax)
    case .rampUp: rampUp.map(DurationText.format)
    case .probes: String(probes)
    case .successesToClose: String(successesToClose)
    case .probeTimeout: DurationText.format(probeTimeout)
    case .probeCalls: probeCalls.map { String($0) }
    case .probeFailureRate: probeFailureRate.map(\.description)
    case .fleetQuorum: fleetQuorum.map(QuorumText.format)
    case .fleetSpread: fleetSpread.map(DurationText.format)
    case .fleetHold: FlagText.format(fleetHold)
    case .maxConcurrent: maxConcurrent.map { String($0) }
    case .reserve: reserve.map { String($0) }
    case .queue: queueTimeout == nil ? queue.map { String($0) } : String(placesToWait)
    case .queueTimeout: queueTimeout.map(DurationText.format)
    case .rate: rate.map(\.description)
    case .retryBudget: retryBudget.map(\.description)
    case .lostCalls: lostCalls.rawValue
    }
  }

  /// Sets a key from its text, as `policy --set` does, without validating the policy as a whole.
  ///
  /// - Throws: `PolicyError` if the text is not a value of that key.
  public mutating func set(_ key: PolicyKey, to text: String) throws(PolicyError) {
    let isNone = key.isOptional && text == "none"
    func value<Value>(_ parse: (String) -> Value?) throws(PolicyError) -> Value {
      guard let value = parse(text) else { throw Self.unreadable(text, for: key) }
      return value
    }
    func optional<Value>(_ parse: (String) -> Value?) throws(PolicyError) -> Value? {
      isNone ? nil : try value(parse)
    }
    switch key {
    case .maxFailures: maxFailures = try optional(CountText.parse)
    case .failures: failures = try optional(CountText.parse)
    case .within: within = try optional(DurationText.parse)
    case .failureRate: failureRate = try optional { Rate($0) }
    case .window: window = try optional(DurationText.parse)
    case .last: last = try optional(CountText.parse)
    case .minCalls: minCalls = try optional(CountText.parse)
    case .slowRate: slowRate = try optional { Rate($0) }
    case .slowAfter: slowAfter = try optional(DurationText.parse)
    case .reporters: reporters = try value(CountText.parse)
    case .lumping: lumping = try optional(DurationText.parse)
    case .openFor: openFor = try value(DurationText.parse)
    case .openMultiplier: openMultiplier = try value(FactorText.parse)
    case .openMax: openMax = try optional(DurationText.parse)
    case .jitter: jitter = try value { Rate($0) }
    case .holdFor: holdFor = try value(DurationText.parse)
    case .holdMax: holdMax = try value(DurationText.parse)
    case .rampUp: rampUp = try optional(DurationText.parse)
    case .probes: probes = try value(CountText.parse)
    case .successesToClose: successesToClose = try value(CountText.parse)
    case .probeTimeout: probeTimeout = try value(DurationText.parse)
    case .probeCalls: probeCalls = try optional(CountText.parse)
    case .probeFailureRate: probeFailureRate = try optional { Rate($0) }
    case .fleetQuorum: fleetQuorum = try optional(QuorumText.parse)
    case .fleetSpread: fleetSpread = try optional(DurationText.parse)
    case .fleetHold: fleetHold = try value(FlagText.parse)
    case .maxConcurrent: maxConcurrent = try optional(CountText.parse)
    case .reserve: reserve = try optional(CountText.parse)
    case .queue: queue = try optional(CountText.parse)
    case .queueTimeout: queueTimeout = try optional(DurationText.parse)
    case .rate: rate = try optional { CallRate($0) }
    case .retryBudget: retryBudget = try optional { Rate($0) }
    case .lostCalls: lostCalls = try value(LostCalls.init(rawValue:))
    }
  }

  private static func unreadable(_ text: String, for key: PolicyKey) -> PolicyError {
    let form =
      switch key.value {
      case .count: "a whole number such as 5"
      case .duration: "a time such as 250ms, 30s, 5m, 1h30m or 1d"
      case .rate: "a rate such as 50%"
      case .factor: "a factor such as 1.5"
      case .countOrRate: "a whole number such as 3, or a rate such as 30%"
      case .callRate: "calls in a time such as 500/1m or 1/120ms"
      case .word: key.words.joined(separator: " or ")
      }
    let none = key.isOptional ? ", or none" : ""
    return PolicyError(
      key, "\(key.rawValue) cannot be '\(OutsideText.quoted(text))': use \(form)\(none)")
  }
}

/// Why a policy, or the text of one, was refused.
public struct PolicyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The key of the policy value that is wrong, as in `policy --set`.
  public var key: String

  /// The mistake in the value, and the remedy, in one line.
  public var description: String

  package init(_ key: PolicyKey, _ description: String) {
    self.key = key.rawValue
    self.description = description
  }

  package init(unknownKey key: String) {
    self.key = key
    let known = PolicyKey.allCases.map { $0.rawValue }.joined(separator: " ")
    description = "unknown policy key \(OutsideText.quoted(key)): use one of \(known)"
  }
}

extension BreakerPolicy {
  /// Refuses a policy that contradicts itself, or that could never open or never close a breaker.
  ///
  /// - Throws: `PolicyError`, which says which value is wrong, why, and what to do.
  public func validate() throws(PolicyError) {
    try validateCounts()
    try validateDurations()
    try validateFailuresWithin()
    try validateRates()
    try validateLumping()
    try validateOpenTime()
    try validateProbes()
    try validateFleet()
    try validateLimit()
    try validateRate()
  }

  private func validateCounts() throws(PolicyError) {
    try Self.check(maxFailures, 1...1_000_000, .maxFailures)
    try Self.check(failures, 1...1_000, .failures)
    try Self.check(last, 1...10_000, .last)
    try Self.check(minCalls, 1...1_000_000, .minCalls)
    try Self.check(reporters, 1...64, .reporters)
    try Self.check(probes, 1...1_000, .probes)
    try Self.check(successesToClose, 1...1_000_000, .successesToClose)
    try Self.check(probeCalls, 1...1_000_000, .probeCalls)
    try Self.check(maxConcurrent, 1...Self.mostWaiting, .maxConcurrent)
    try Self.check(reserve, 1...Self.mostWaiting - 1, .reserve)
    try Self.check(queue, 1...Self.mostWaiting, .queue)
  }

  private static func check(
    _ count: Int?, _ range: ClosedRange<Int>, _ key: PolicyKey
  ) throws(PolicyError) {
    guard let count, !range.contains(count) else { return }
    throw PolicyError(
      key, "\(key.rawValue) is \(count): use \(range.lowerBound) to \(range.upperBound)")
  }

  /// The longest duration that a policy may hold.
  package static let longestDuration = Duration.seconds(365 * 86_400)

  private func validateDurations() throws(PolicyError) {
    let durations: [(PolicyKey, Duration?)] = [
      (.within, within), (.slowAfter, slowAfter), (.window, window), (.lumping, lumping),
      (.openFor, openFor), (.openMax, openMax), (.holdFor, holdFor), (.holdMax, holdMax),
      (.rampUp, rampUp), (.probeTimeout, probeTimeout),
      (.queueTimeout, queueTimeout),
    ]
    for case (let key, let duration?) in durations {
      guard duration < .microseconds(1) || duration > Self.longestDuration else { continue }
      throw PolicyError(
        key, "\(key.rawValue) is \(DurationText.format(duration)): use 1us to 365d")
    }
  }

  private func validateFailuresWithin() throws(PolicyError) {
    switch (failures, within) {
    case (.some, nil):
      throw PolicyError(.within, "failures is set without within: set both")
    case (nil, .some):
      throw PolicyError(.failures, "within is set without failures: set both")
    case (.some, .some), (nil, nil):
      break
    }
  }

  private func validateRates() throws(PolicyError) {
    let rates: [(PolicyKey, BreakerPolicy.Rate?)] = [
      (.failureRate, failureRate), (.slowRate, slowRate), (.probeFailureRate, probeFailureRate),
      (.retryBudget, retryBudget),
    ]
    for case (let key, let rate?) in rates where !(1...1_000_000).contains(rate.partsPerMillion) {
      throw PolicyError(
        key, "\(key.rawValue) is \(rate): use more than 0% and at most 100%")
    }
    let hasRate = failureRate != nil || slowRate != nil
    if window != nil, last != nil {
      throw PolicyError(.last, "window and last are both set: set only one")
    }
    if hasRate, window == nil, last == nil {
      throw PolicyError(.window, "a rate is set without window or last: set one of them")
    }
    if !hasRate, window != nil || last != nil || minCalls != nil {
      let key: PolicyKey = window != nil ? .window : last != nil ? .last : .minCalls
      throw PolicyError(
        key, "\(key.rawValue) is set without failure-rate or slow-rate: set one of them")
    }
    if slowRate != nil, slowAfter == nil {
      throw PolicyError(.slowAfter, "slow-rate is set without slow-after: set both")
    }
    if let last, let minCalls, minCalls > last {
      throw PolicyError(
        .minCalls, "min-calls \(minCalls) is more than last \(last): the breaker could never open")
    }
    if let last, reporters > last {
      throw PolicyError(
        .reporters, "reporters \(reporters) is more than last \(last): the breaker could never open"
      )
    }
  }

  private func validateLumping() throws(PolicyError) {
    guard let lumping = lumping?.inNanoseconds else { return }
    if let failures, let within = within?.inNanoseconds,
      Int64(failures - 1).multipliedSaturating(by: lumping) >= within
    {
      throw PolicyError(
        .lumping,
        "\(failures) failures at least \(DurationText.format(self.lumping)) apart do not fit"
          + " within \(DurationText.format(self.within)): the breaker could never open")
    }
    if let failureRate, let window = window?.inNanoseconds {
      let needed = failureRate.smallestPart(of: Int64(callsToJudge))
      guard (needed - 1).multipliedSaturating(by: lumping) >= window else { return }
      throw PolicyError(
        .lumping,
        "the \(needed) failures that the rate needs do not fit into the window at least"
          + " \(DurationText.format(self.lumping)) apart: the breaker could never open")
    }
  }

  private func validateOpenTime() throws(PolicyError) {
    guard openMultiplier.isFinite, openMultiplier >= 1, openMultiplier <= 1_000 else {
      throw PolicyError(.openMultiplier, "open-multiplier is \(openMultiplier): use 1 to 1000")
    }
    if let openMax, openMax < openFor {
      throw PolicyError(
        .openMax,
        "open-max \(DurationText.format(openMax)) is less than open-for"
          + " \(DurationText.format(openFor)): use at least that")
    }
    guard (0..<1_000_000).contains(jitter.partsPerMillion) else {
      throw PolicyError(
        .jitter, "jitter is \(jitter): use 0% or more and less than 100%")
    }
  }

  private func validateProbes() throws(PolicyError) {
    switch (probeCalls, probeFailureRate) {
    case (.some, nil):
      throw PolicyError(
        .probeFailureRate, "probe-calls is set without probe-failure-rate: set both")
    case (nil, .some):
      throw PolicyError(
        .probeCalls, "probe-failure-rate is set without probe-calls: set both")
    case (.some, .some) where successesToClose != 1:
      throw PolicyError(
        .successesToClose,
        "successes-to-close and probe-calls are both set: set only one")
    case (.some, .some), (nil, nil):
      break
    }
  }

  private func validateFleet() throws(PolicyError) {
    switch fleetQuorum {
    case .hosts(let count):
      try Self.check(count, 1...1_000_000, .fleetQuorum)
    case .share(let rate) where !(1...1_000_000).contains(rate.partsPerMillion):
      throw PolicyError(
        .fleetQuorum,
        "fleet-quorum is \(rate): use more than 0% and at most 100%")
    case .share, nil: break
    }
    if let fleetSpread, fleetSpread < .zero || fleetSpread > Self.longestDuration {
      throw PolicyError(
        .fleetSpread, "fleet-spread is \(DurationText.format(fleetSpread)): use 0s to 365d")
    }
  }

  private func validateRate() throws(PolicyError) {
    guard let rate else { return }
    guard rate.interval >= .microseconds(1), rate.interval <= Self.longestDuration else {
      throw PolicyError(
        .rate,
        "rate \(rate) counts over \(DurationText.format(rate.interval)): use 1us to 365d, such as 500/1m"
      )
    }
    guard rate.calls < 1 || rate.calls > CallRate.most else { return }
    throw PolicyError(
      .rate,
      rate.calls < 1
        ? "rate \(rate) permits no call: use 1 or more, or 'cbctl trip' to stop all calls"
        : "rate \(rate) is of more than \(CallRate.most) calls: use fewer in a shorter time, such as 1000/1ms"
    )
  }

  private func validateLimit() throws(PolicyError) {
    if queue != nil, queueTimeout == nil {
      throw PolicyError(.queueTimeout, "queue is set without queue-timeout: set both")
    }
    guard let maxConcurrent else {
      let key: PolicyKey? =
        reserve != nil ? .reserve : lostCalls != .ignored ? .lostCalls : nil
      guard let key else { return }
      throw PolicyError(
        .maxConcurrent, "\(key.rawValue) is set without max-concurrent: set both")
    }
    if let reserve, reserve >= maxConcurrent {
      throw PolicyError(
        .reserve,
        "reserve \(reserve) leaves nothing of max-concurrent \(maxConcurrent) to background calls:"
          + " use less")
    }
  }
}

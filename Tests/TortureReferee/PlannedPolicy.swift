internal import TestSupport

/// The policy of a phase, in words that both the library and the command line accept.
package struct PlannedPolicy: Sendable {
  /// The words, `KEY=VALUE`, separated by spaces.
  package var words: String
  package var probes: Int
  package var probeTimeoutMilliseconds: Int

  /// The longest time that a breaker stays open, unless a trip or a failure names a longer one.
  package var longestOpenMilliseconds: Int

  /// Draws a policy; if `isSlow`, times are for a moved clock and a hundred times as long.
  init(_ random: inout SeededRandom, isSlow: Bool) {
    let scale = isSlow ? 100 : 1
    let openFor = random.number(30...150) * scale
    probes = random.pick([1, 1, 1, 2, 3])
    probeTimeoutMilliseconds = random.number(60...300) * scale
    let multiplier = random.pick(["1", "1", "2"])
    longestOpenMilliseconds = 400 * scale
    words =
      Self.condition(&random, scale: scale)
      + " open-for=\(openFor)ms open-multiplier=\(multiplier)"
      + " open-max=\(longestOpenMilliseconds)ms jitter=\(random.pick(["0%", "20%"]))"
      + " probes=\(probes) successes-to-close=\(random.number(1...3))"
      + " probe-timeout=\(probeTimeoutMilliseconds)ms"
  }

  private static func condition(_ random: inout SeededRandom, scale: Int) -> String {
    switch random.number(0...5) {
    case 0: "max-failures=\(random.number(1...8))"
    // Hardly ever met, so that there are as many transactions as possible.
    case 5: "max-failures=\(random.pick([50, 5_000]))"
    case 1: "failures=\(random.number(2...10)) within=\(random.number(100...2_000) * scale)ms"
    case 2:
      "failure-rate=\(random.number(5...60))% window=\(random.number(200...3_000) * scale)ms"
        + " min-calls=\(random.number(1...20))"
    case 3: "failure-rate=\(random.number(5...60))% last=\(random.number(10...200))"
    default: "slow-rate=\(random.number(10...60))% slow-after=50ms last=\(random.number(10...100))"
    }
  }
}

import SharedBreaker

/// How many calls a second succeeded, failed and were rejected.
struct CallRates: Sendable, Hashable {
  var successes: Double
  var failures: Double
  var rejections: Double
}

/// The totals of breakers at several instants, from which rates follow.
struct RateBook {
  /// The seconds that rates cover: with fewer they would jump, with more they would lag behind.
  private static let length = Duration.seconds(5)

  private var samples: [(at: Duration, totals: [NameBytes: BreakerTotals])] = []

  /// Records the totals at an instant, which must be later than all before it.
  mutating func note(_ snapshots: [BreakerSnapshot], at instant: Duration) {
    let totals = Dictionary(snapshots.map { (NameBytes($0.name), $0.totals) }) { first, _ in first }
    // The newest of the old ones is kept, because otherwise there may be nothing to compare with.
    while samples.count > 1, instant - samples[1].at >= Self.length { samples.removeFirst() }
    samples.append((instant, totals))
  }

  /// The rates of a breaker; nil until it was recorded twice.
  func rates(of name: String) -> CallRates? {
    let name = NameBytes(name)
    guard let newest = samples.last, let now = newest.totals[name],
      let first = samples.first(where: { $0.totals[name] != nil }), let then = first.totals[name]
    else { return nil }
    let seconds = (newest.at - first.at) / .seconds(1)
    guard seconds > 0 else { return nil }
    // A breaker that was deleted and created again counts from zero.
    func rate(_ count: KeyPath<BreakerTotals, Int64>) -> Double {
      Double(max(0, now[keyPath: count].subtractingReportingOverflow(then[keyPath: count]).0))
        / seconds
    }
    return CallRates(
      successes: rate(\.successes), failures: rate(\.failures), rejections: rate(\.rejections))
  }
}

extension RateWords {
  /// A rate in at most four characters: `0`, `0.4`, `37`, `1.2k`, `3M`.
  static func perSecond(_ rate: Double?) -> String {
    guard let rate, rate.isFinite else { return "-" }
    switch rate {
    case ..<0.05: return rate > 0 ? "<0.1" : "0"
    case ..<9.95: return oneDecimal(rate)
    case ..<999.5: return "\(Int(rate.rounded()))"
    case ..<9_950: return oneDecimal(rate / 1_000) + "k"
    case ..<999_500: return "\(Int((rate / 1_000).rounded()))k"
    default: return "\(Int(min(rate / 1_000_000, 1e9).rounded()))M"
    }
  }

  private static func oneDecimal(_ value: Double) -> String {
    let (whole, tenth) = Int((value * 10).rounded()).quotientAndRemainder(dividingBy: 10)
    return tenth == 0 ? "\(whole)" : "\(whole).\(tenth)"
  }
}

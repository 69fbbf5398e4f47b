/// How many other hosts must have a breaker open before this host suspects its own.
///
/// A later version may add cases, so end a `switch` over a quorum with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum FleetQuorum: Sendable, Hashable {
  /// This many other hosts.
  case hosts(Int)

  /// This share of the hosts of the fleet that were seen lately, but at least two hosts.
  case share(BreakerPolicy.Rate)

  /// How many other hosts that is in a fleet of which this many hosts were seen lately.
  ///
  /// A share is rounded up: 30% of 11 hosts are 4.
  public func hosts(ofFleet seen: Int) -> Int {
    switch self {
    case .hosts(let count): count
    case .share(let rate): max(least, Int(clamping: rate.smallestPart(of: Int64(seen))))
    }
  }

  /// The fewest hosts that can be a quorum, however small the fleet is.
  package var least: Int {
    switch self {
    case .hosts(let count): count
    case .share: 2
    }
  }
}

/// Quorums as people write them: `3`, `30%`.
enum QuorumText {
  static func parse(_ text: String) -> FleetQuorum? {
    CountText.parse(text).map { .hosts($0) } ?? RateText.parse(text).map { .share($0) }
  }

  static func format(_ quorum: FleetQuorum) -> String {
    switch quorum {
    case .hosts(let count): String(count)
    case .share(let rate): RateText.format(rate)
    }
  }
}

/// How many calls may begin in any interval of some length, on the whole host.
///
/// It is a bound on the beginnings: `500/1m` means that no minute, wherever it starts, sees more than 500 calls begin. All
/// of them may begin at once; `1/120ms` spaces them evenly.
public struct CallRate: Sendable, Hashable {
  /// The most calls that begin in an interval, 1 to 65,536.
  public var calls: Int

  /// The length of the interval, which may start at any instant.
  public var interval: Duration

  /// Creates a rate; a policy refuses one that is impossible.
  public init(calls: Int, interval: Duration) {
    self.calls = calls
    self.interval = interval
  }

  /// At most so many calls in any interval of a length, such as `.calls(1, per: .milliseconds(120))`.
  public static func calls(_ calls: Int, per interval: Duration) -> CallRate {
    CallRate(calls: calls, interval: interval)
  }

  /// At most so many calls in any second, minute, hour or day, such as `.calls(500, per: .minute)`.
  public static func calls(_ calls: Int, per unit: Unit) -> CallRate {
    CallRate(calls: calls, interval: unit.interval)
  }

  /// The intervals that services name most often.
  public struct Unit: Sendable, Hashable {
    fileprivate let interval: Duration

    /// A second.
    public static let second = Unit(interval: .seconds(1))

    /// A minute.
    public static let minute = Unit(interval: .seconds(60))

    /// An hour.
    public static let hour = Unit(interval: .seconds(3_600))

    /// A day of 24 hours.
    public static let day = Unit(interval: .seconds(86_400))
  }

  /// The most calls that a rate can bound: the host remembers when each of them began.
  package static let most = 65_536
}

extension CallRate: LosslessStringConvertible {
  /// Reads a rate as people write it, such as `500/1m`, `500/m` or `1/120ms`; nil if the text is anything else.
  public init?(_ description: String) {
    let parts = description.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[0].isEmpty, let calls = CountText.parse(String(parts[0])),
      let first = parts[1].utf8.first
    else { return nil }
    let isUnit = !(0x30...0x39).contains(first)
    guard let interval = DurationText.parse((isUnit ? "1" : "") + parts[1]) else { return nil }
    self.init(calls: calls, interval: interval)
  }

  /// The rate as it is written, such as `500/1m`.
  public var description: String { "\(calls)/\(DurationText.format(interval))" }
}

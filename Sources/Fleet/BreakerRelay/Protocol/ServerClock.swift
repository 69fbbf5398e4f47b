/// The server's clock, as this host knows it from the server's latest answer.
///
/// Hosts compare only times of this clock, because their own clocks may differ.
package struct ServerClock: Sendable {
  private var milliseconds: Int64
  private var readAt: ContinuousClock.Instant

  /// Begins with the time that the server has just told.
  package init(milliseconds: Int64, at instant: ContinuousClock.Instant = .now) {
    self.milliseconds = milliseconds
    readAt = instant
  }

  /// The latest possible time, in milliseconds: the year 33658.
  package static let latest: Int64 = 1_000_000_000_000_000

  /// Reads the answer to TIME; nil if it makes no sense.
  package static func milliseconds(_ answer: RedisReply) -> Int64? {
    guard let parts = answer.elements, parts.count == 2,
      let seconds = parts[0].number(upTo: latest / 1_000),
      let microseconds = parts[1].number(upTo: 999_999)
    else { return nil }
    return seconds * 1_000 + microseconds / 1_000
  }

  /// Reads a time; nil if it makes no sense.
  package static func time(_ text: some StringProtocol) -> Int64? {
    Int64(text).flatMap { (0...latest).contains($0) ? $0 : nil }
  }

  /// Notes that the server has received something at a time, so its clock is at least there.
  package mutating func hasReached(_ time: Int64, at instant: ContinuousClock.Instant = .now) {
    guard time > now(instant), time <= Self.latest else { return }
    self = ServerClock(milliseconds: time, at: instant)
  }

  /// The server's time in milliseconds.
  package func now(_ instant: ContinuousClock.Instant = .now) -> Int64 {
    let (seconds, rest) = (instant - readAt).components
    return milliseconds + seconds * 1_000 + rest / 1_000_000_000_000_000
  }
}

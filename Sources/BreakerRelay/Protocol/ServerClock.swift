/// The server's clock, as this host knows it from the server's latest answer.
///
/// All times that hosts compare are of this clock, because their own may differ.
package struct ServerClock: Sendable {
  private var milliseconds: Int64
  private var readAt: ContinuousClock.Instant

  /// Takes the time that the server has just told.
  package init(milliseconds: Int64, at instant: ContinuousClock.Instant = .now) {
    self.milliseconds = milliseconds
    readAt = instant
  }

  /// The server's time in milliseconds.
  package func now(_ instant: ContinuousClock.Instant = .now) -> Int64 {
    let (seconds, rest) = (instant - readAt).components
    return milliseconds + seconds * 1_000 + rest / 1_000_000_000_000_000
  }
}

internal import BreakerCore

/// A call took longer than it was given.
public struct CallTimedOut: Error, Sendable, Hashable, CustomStringConvertible {
  /// The breaker that the call went through.
  public let name: String

  /// The time that the call was given.
  public let timeout: Duration

  /// Says that a call through a breaker took longer than it was given.
  public init(name: String, timeout: Duration) {
    self.name = name
    self.timeout = timeout
  }

  /// What happened, in one line.
  public var description: String {
    "a call through \(OutsideText.visible(name)) was not over after \(DurationText.format(timeout))"
  }
}

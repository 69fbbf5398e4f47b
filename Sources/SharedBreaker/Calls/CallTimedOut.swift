internal import BreakerCore

/// The error of a call that took longer than its timeout.
public struct CallTimedOut: Error, Sendable, Hashable, CustomStringConvertible {
  /// The name of the breaker that the call went through.
  public let name: String

  /// How long the call was allowed to take.
  public let timeout: Duration

  /// Describes a call that took longer than its timeout.
  public init(name: String, timeout: Duration) {
    self.name = name
    self.timeout = timeout
  }

  /// What happened, in one line.
  public var description: String {
    "a call through \(OutsideText.visible(name)) took longer than \(DurationText.format(timeout))"
  }
}

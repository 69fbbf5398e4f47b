internal import JSONText
internal import SharedBreaker
internal import Synchronization

/// How a relay fares, for its status; the relay's thread writes it, and others read it.
final class RelayHealth: Sendable {
  struct Figures: Sendable {
    var isConnected = false
    var since: BreakerTimestamp?
    var problem: String?

    /// How long the latest message took to arrive, in milliseconds; 0 once there is nothing to read.
    var lag: Int64?
    var applied: Int64 = 0
    var refused: Int64 = 0
  }

  private let figures = Mutex(Figures())

  var now: Figures { figures.withLock { $0 } }

  func change(_ body: @Sendable (inout Figures) -> Void) { figures.withLock { body(&$0) } }

  /// Notes whether the relay is connected; returns whether that or the problem is news.
  func note(isConnected: Bool, problem: String?, at time: BreakerTimestamp) -> Bool {
    figures.withLock { figures in
      guard figures.isConnected != isConnected || figures.problem != problem else { return false }
      if figures.isConnected != isConnected { figures.since = time }
      figures.isConnected = isConnected
      figures.problem = problem
      return true
    }
  }
}

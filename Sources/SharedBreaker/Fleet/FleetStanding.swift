internal import BreakerCore
internal import BreakerStore

/// What a store knows of the fleet that its host belongs to.
public struct FleetStanding: Sendable, Hashable {
  /// The name of the fleet.
  public let fleet: String

  /// What the fleet calls this host.
  public let host: String

  /// How far the relay has read what other hosts tell; nil if it has read nothing yet.
  public let position: FleetPosition?

  /// Whether a relay works on the store.
  public let isRelayRunning: Bool

  /// Whether that relay reaches the other hosts.
  public let isConnected: Bool

  /// When the relay last noted that it reaches them, or that it does not.
  public let changedAt: BreakerTimestamp?

  /// Why the relay does not reach the other hosts, in its own words; nil if it knows of nothing.
  public let problem: String?

  /// How many commands the relay has yet to tell the other hosts.
  public let waiting: Int

  init(_ stored: StoredFleet, isRelayRunning: Bool) {
    fleet = stored.fleet
    host = stored.host
    position = stored.position
    self.isRelayRunning = isRelayRunning
    isConnected = isRelayRunning && stored.isConnected
    changedAt = stored.changedAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    problem = stored.problem
    waiting = stored.waiting
  }
}

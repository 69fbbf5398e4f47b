internal import BreakerCore

/// Policies to start from, each for one kind of resource.
///
/// Copy one and change what differs:
///
/// ```swift
/// var policy = BreakerPolicy.http
/// policy.slowRate = 0.5
/// policy.slowAfter = .seconds(3)
/// ```
extension BreakerPolicy {
  /// A policy for a service across a network that receives many calls.
  ///
  /// Such a service always fails a few calls, so the share of failures counts: the breaker opens
  /// when half of at least 20 calls in the last 30 seconds failed. Ten failures in a row open it
  /// too, for hosts that call the service seldom. An outage may last long, so the open time doubles
  /// from 15 seconds up to 10 minutes. It has a jitter of 20%, because other hosts come back to
  /// the same service. Two probes must succeed, because one good answer from an overloaded service
  /// means little.
  public static let http = BreakerPolicy(
    maxFailures: 10, failureRate: 0.5, window: .seconds(30), minCalls: 20,
    openFor: .seconds(15), openMultiplier: 2, openMax: .seconds(600), jitter: 0.2,
    successesToClose: 2)

  /// A policy for a database, or another server of your own, that either works or does not.
  ///
  /// Such a server seldom fails, and when it is down all calls fail: five failures in a row open
  /// the breaker. A restart or a failover takes seconds, so the open time starts at 5 seconds and
  /// grows by half up to a minute, with a jitter of 10%. The policy has no rates, so a healthy
  /// call costs next to nothing.
  public static let database = BreakerPolicy(
    maxFailures: 5, openFor: .seconds(5), openMultiplier: 1.5, openMax: .seconds(60), jitter: 0.1,
    probeTimeout: .seconds(10))

  /// A policy for a daemon on the same host, behind a socket.
  ///
  /// A daemon answers at once or not at all, and is back within a second or two after a restart.
  /// Rejecting its callers for longer would be an outage in itself. Three failures in a row open
  /// the breaker, and the open time doubles from 1 second up to 30 seconds.
  public static let localService = BreakerPolicy(
    maxFailures: 3, openFor: .seconds(1), openMultiplier: 2, openMax: .seconds(30),
    probeTimeout: .seconds(5))

  /// A policy for a device: a sensor, a printer, a modem.
  ///
  /// When a device resets, every call that is under way fails, so failures within a second count as
  /// one. Three failures in a row open the breaker. A device is slow to answer, and an operator may
  /// have to walk to it: the open time doubles from 10 seconds up to 5 minutes.
  public static let device = BreakerPolicy(
    maxFailures: 3, lumping: .seconds(1), openFor: .seconds(10), openMultiplier: 2,
    openMax: .seconds(300))

  /// A policy for a job that a timer starts every few minutes, each time as a new process.
  ///
  /// The calls of such a job are too few for rates and too far apart for a window, so three
  /// failures in a row open the breaker. A run may take long, so a probe has an hour. The open time
  /// doubles from 15 minutes up to 6 hours, so that a job that fails all night does not fill a log.
  public static let scheduledJob = BreakerPolicy(
    maxFailures: 3, openFor: .seconds(900), openMultiplier: 2, openMax: .seconds(21_600),
    probeTimeout: .seconds(3_600))
}

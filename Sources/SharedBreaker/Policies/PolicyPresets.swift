internal import BreakerCore

/// Policies to begin with, each for one kind of resource; copy one and change what differs.
extension BreakerPolicy {
  /// For a service across a network that many calls go to.
  ///
  /// A few errors are its normal day, so its share counts: it opens when half of at least 20 calls of
  /// the last 30 seconds failed. Ten failures in a row open it too, for hosts that call it seldom.
  /// An outage of the far side may last, so the open time doubles from 15 seconds up to 10 minutes,
  /// with a jitter, for other hosts come back to the same service. Two probes must succeed: one
  /// good answer of an overloaded service means little.
  public static let http = BreakerPolicy(
    maxFailures: 10, failureRate: 0.5, window: .seconds(30), minCalls: 20,
    openFor: .seconds(15), openMultiplier: 2, openMax: .seconds(600), jitter: 0.2,
    successesToClose: 2)

  /// For a database or another server of one's own that either works or does not.
  ///
  /// Its errors are few, and come together when it is down: five in a row open it. A restart or a
  /// failover is over in seconds, so it is asked again after 5, and never later than after a
  /// minute. It has no rates, so a healthy call costs next to nothing.
  public static let database = BreakerPolicy(
    maxFailures: 5, openFor: .seconds(5), openMultiplier: 1.5, openMax: .seconds(60), jitter: 0.1,
    probeTimeout: .seconds(10))

  /// For a daemon on the same host, behind a socket.
  ///
  /// It answers at once or not at all, and is back within a second or two after a restart; to
  /// reject its callers for longer would be an outage of its own.
  public static let localService = BreakerPolicy(
    maxFailures: 3, openFor: .seconds(1), openMultiplier: 2, openMax: .seconds(30),
    probeTimeout: .seconds(5))

  /// For a device: a sensor, a printer, a modem.
  ///
  /// One reset of it makes every call fail that is under way, so failures within a second count
  /// as one. It is slow to answer, and somebody may have to walk there: the open time doubles from
  /// 10 seconds up to 5 minutes.
  public static let device = BreakerPolicy(
    maxFailures: 3, lumping: .seconds(1), openFor: .seconds(10), openMultiplier: 2,
    openMax: .seconds(300))

  /// For a job that a timer starts every few minutes, each time as a process of its own.
  ///
  /// Its calls are too few for rates and too far apart for a window, so failures in a row count. A
  /// run of it may take long: a probe has an hour. The open time doubles from 15 minutes up to 6
  /// hours, so that a job that fails all night does not fill a log.
  public static let scheduledJob = BreakerPolicy(
    maxFailures: 3, openFor: .seconds(900), openMultiplier: 2, openMax: .seconds(21_600),
    probeTimeout: .seconds(3_600))
}

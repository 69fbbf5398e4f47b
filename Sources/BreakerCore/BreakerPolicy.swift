/// When a breaker opens, how long it stays open, and what lets it close again.
///
/// Every trip condition that is set opens the breaker by itself. With none set, five consecutive
/// failures do.
public struct BreakerPolicy: Sendable, Hashable {
  /// Opens after so many failures with no success between them (`max-failures`).
  public var maxFailures: Int?

  /// Opens after so many failures within `within` (`failures`).
  public var failures: Int?

  /// The time within which `failures` are counted; a failure this old no longer counts (`within`).
  public var within: Duration?

  /// Opens when at least this share of the calls in the window failed (`failure-rate`).
  public var failureRate: Rate?

  /// Opens when at least this share of the calls in the window were slow (`slow-rate`).
  public var slowRate: Rate?

  /// A call that took at least this long is slow (`slow-after`).
  public var slowAfter: Duration?

  /// Takes rates over the calls of the last stretch of time (`window`).
  public var window: Duration?

  /// Takes rates over the last so many calls (`last`).
  public var last: Int?

  /// Judges no rate over fewer calls than this; 10, or `last` if that is fewer (`min-calls`).
  public var minCalls: Int?

  /// Opens only if at least so many distinct processes reported failures (`reporters`).
  public var reporters: Int

  /// Counts failures that are closer together than this as one (`lumping`).
  public var lumping: Duration?

  /// How long the breaker stays open (`open-for`).
  public var openFor: Duration

  /// How many times longer it stays open with each trip in a row (`open-multiplier`).
  public var openMultiplier: Double

  /// The longest that it stays open (`open-max`).
  public var openMax: Duration?

  /// By what share the open time is varied either way (`jitter`).
  public var jitter: Rate

  /// How many probes may be under way at once on the whole host (`probes`).
  public var probes: Int

  /// Closes after so many successful probes, with no failed one between them (`successes-to-close`).
  public var successesToClose: Int

  /// A probe that takes longer has failed (`probe-timeout`).
  public var probeTimeout: Duration

  /// Judges the probes together after so many of them, instead of one by one (`probe-calls`).
  public var probeCalls: Int?

  /// Opens again when at least this share of `probeCalls` failed (`probe-failure-rate`).
  public var probeFailureRate: Rate?

  /// Describes a policy; what is not given has its default.
  public init(
    maxFailures: Int? = nil,
    failures: Int? = nil,
    within: Duration? = nil,
    failureRate: Rate? = nil,
    slowRate: Rate? = nil,
    slowAfter: Duration? = nil,
    window: Duration? = nil,
    last: Int? = nil,
    minCalls: Int? = nil,
    reporters: Int = 1,
    lumping: Duration? = nil,
    openFor: Duration = .seconds(30),
    openMultiplier: Double = 1,
    openMax: Duration? = nil,
    jitter: Rate = 0.0,
    probes: Int = 1,
    successesToClose: Int = 1,
    probeTimeout: Duration = .seconds(30),
    probeCalls: Int? = nil,
    probeFailureRate: Rate? = nil
  ) {
    self.maxFailures = maxFailures
    self.failures = failures
    self.within = within
    self.failureRate = failureRate
    self.slowRate = slowRate
    self.slowAfter = slowAfter
    self.window = window
    self.last = last
    self.minCalls = minCalls
    self.reporters = reporters
    self.lumping = lumping
    self.openFor = openFor
    self.openMultiplier = openMultiplier
    self.openMax = openMax
    self.jitter = jitter
    self.probes = probes
    self.successesToClose = successesToClose
    self.probeTimeout = probeTimeout
    self.probeCalls = probeCalls
    self.probeFailureRate = probeFailureRate
  }
}

extension BreakerPolicy {
  /// The number of consecutive failures that opens when no trip condition is set.
  public static let defaultMaxFailures = 5

  /// The number of consecutive failures that opens, the default included; nil if none does.
  public var consecutiveFailuresToOpen: Int? {
    if let maxFailures { return maxFailures }
    let hasOtherCondition = failures != nil || failureRate != nil || slowRate != nil
    return hasOtherCondition ? nil : Self.defaultMaxFailures
  }

  /// The fewest calls over which a rate is judged, the default included.
  public var callsToJudge: Int { minCalls ?? min(10, last ?? 10) }

  /// Whether a call took so long that this policy calls it slow.
  package func isSlow(_ elapsed: Duration?) -> Bool {
    guard let slowAfter, let elapsed else { return false }
    return elapsed >= slowAfter
  }
}

/// When a breaker opens, how long it stays open, and what lets it close again.
///
/// Each trip condition that you set can open the breaker on its own. If you set none, five
/// consecutive failures open it.
public struct BreakerPolicy: Sendable, Hashable {
  /// Opens after this many failures with no success in between (`max-failures`).
  public var maxFailures: Int?

  /// Opens after this many failures within `within` (`failures`).
  public var failures: Int?

  /// The period in which `failures` are counted; a failure this old no longer counts (`within`).
  public var within: Duration?

  /// Opens when at least this share of the calls in the window failed (`failure-rate`).
  public var failureRate: BreakerPolicy.Rate?

  /// Opens when at least this share of the calls in the window were slow (`slow-rate`).
  public var slowRate: BreakerPolicy.Rate?

  /// A call that takes at least this long is slow (`slow-after`).
  public var slowAfter: Duration?

  /// Computes rates over the calls of this most recent period (`window`).
  public var window: Duration?

  /// Computes rates over this many most recent calls (`last`).
  public var last: Int?

  /// The fewest calls over which a rate is judged; 10, or `last` if that is fewer (`min-calls`).
  public var minCalls: Int?

  /// Opens only if at least this many distinct processes reported failures (`reporters`).
  ///
  /// For `slowRate`, that many processes must have reported slow calls.
  public var reporters: Int

  /// Counts failures closer together than this as one (`lumping`).
  public var lumping: Duration?

  /// How long the breaker stays open (`open-for`).
  public var openFor: Duration

  /// How many times longer the breaker stays open with each consecutive trip (`open-multiplier`).
  public var openMultiplier: Double

  /// The longest time that the breaker stays open (`open-max`).
  ///
  /// An operator who trips the breaker may choose a longer time.
  public var openMax: Duration?

  /// The share by which the open time varies in either direction (`jitter`).
  public var jitter: BreakerPolicy.Rate

  /// How long calls are held if the resource has asked to be left alone and names no time (`hold-for`).
  ///
  /// It holds from the third such answer in a row on, and doubles with each further one, up to 64-fold.
  public var holdFor: Duration

  /// The longest hold that an answer can ask for (`hold-max`).
  ///
  /// An operator who holds calls may choose a longer time.
  public var holdMax: Duration

  /// For how long after a close or a hold no more calls are under way than have succeeded since, and one (`ramp-up`).
  ///
  /// So a resource that has just come back gets 1, 2, 4, 8 calls at once from the whole host, and not all.
  public var rampUp: Duration?

  /// How many probes may be under way at once on the whole host (`probes`).
  public var probes: Int

  /// Closes after this many successful probes, with no failed one in between
  /// (`successes-to-close`).
  public var successesToClose: Int

  /// A probe that takes longer than this has failed (`probe-timeout`).
  public var probeTimeout: Duration

  /// Judges this many probes together instead of one by one (`probe-calls`).
  public var probeCalls: Int?

  /// Opens again when at least this share of `probeCalls` failed (`probe-failure-rate`).
  public var probeFailureRate: BreakerPolicy.Rate?

  /// Makes a closed breaker half-open when this many other hosts of the fleet have it open
  /// (`fleet-quorum`).
  ///
  /// Its next call is a probe, whose outcome decides. Hosts form a fleet if `cbrelay` runs on each
  /// of them.
  public var fleetQuorum: FleetQuorum?

  /// Ends the open time within a random part of this when a probe succeeds on another host of the
  /// fleet (`fleet-spread`).
  ///
  /// The more hosts there are, and the slower the resource takes up its work, the longer it should
  /// be. Zero is the same as nil: other hosts do not end the open time.
  public var fleetSpread: Duration?

  /// Whether the hosts of a fleet tell each other the holds that they are told (`fleet-hold`).
  ///
  /// Then a hold that one host is told holds the calls of every host whose policy says so too. `hold-max` of a host
  /// cuts what it hears.
  public var fleetHold: Bool

  /// Permits calls only while at most this many units of work are under way on the whole host
  /// (`max-concurrent`).
  ///
  /// A call is one unit. A call that finds no room waits in the queue, or is rejected as busy, which
  /// is no failure.
  public var maxConcurrent: Int?

  /// How many units of `maxConcurrent` background calls leave to all others (`reserve`).
  public var reserve: Int?

  /// How many callers may wait; 1,024 if only `queueTimeout` is set (`queue`).
  public var queue: Int?

  /// How long a caller may wait for room, for the end of a hold, or for its turn in a ramp or under a rate; without it,
  /// no caller waits (`queue-timeout`).
  public var queueTimeout: Duration?

  /// Permits at most so many calls to begin in any interval of some length, on the whole host (`rate`).
  ///
  /// A call that comes too early waits in the queue, or is rejected with the time after which it may begin, which is no
  /// failure.
  public var rate: CallRate?

  /// Permits at most this share of retries, on the whole host, of the first attempts of the last 10 s, and in any case
  /// ten in each second (`retry-budget`).
  ///
  /// A retry beyond it is not sent: the call ends with the outcome of the attempt before.
  public var retryBudget: BreakerPolicy.Rate?

  /// How calls count that are under way when their process ends (`lost-calls`).
  ///
  /// They are noticed only with `maxConcurrent`.
  public var lostCalls: BreakerPolicy.LostCalls

  /// Creates a policy; every value that you omit has its default.
  public init(
    maxFailures: Int? = nil,
    failures: Int? = nil,
    within: Duration? = nil,
    failureRate: BreakerPolicy.Rate? = nil,
    slowRate: BreakerPolicy.Rate? = nil,
    slowAfter: Duration? = nil,
    window: Duration? = nil,
    last: Int? = nil,
    minCalls: Int? = nil,
    reporters: Int = 1,
    lumping: Duration? = nil,
    openFor: Duration = .seconds(30),
    openMultiplier: Double = 1,
    openMax: Duration? = nil,
    jitter: BreakerPolicy.Rate = 0.0,
    holdFor: Duration = .seconds(1),
    holdMax: Duration = .seconds(86_400),
    rampUp: Duration? = nil,
    probes: Int = 1,
    successesToClose: Int = 1,
    probeTimeout: Duration = .seconds(30),
    probeCalls: Int? = nil,
    probeFailureRate: BreakerPolicy.Rate? = nil,
    fleetQuorum: FleetQuorum? = nil,
    fleetSpread: Duration? = nil,
    fleetHold: Bool = false,
    maxConcurrent: Int? = nil,
    reserve: Int? = nil,
    queue: Int? = nil,
    queueTimeout: Duration? = nil,
    rate: CallRate? = nil,
    retryBudget: BreakerPolicy.Rate? = nil,
    lostCalls: BreakerPolicy.LostCalls = .ignored
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
    self.holdFor = holdFor
    self.holdMax = holdMax
    self.rampUp = rampUp
    self.probes = probes
    self.successesToClose = successesToClose
    self.probeTimeout = probeTimeout
    self.probeCalls = probeCalls
    self.probeFailureRate = probeFailureRate
    self.fleetQuorum = fleetQuorum
    self.fleetSpread = fleetSpread
    self.fleetHold = fleetHold
    self.maxConcurrent = maxConcurrent
    self.reserve = reserve
    self.queue = queue
    self.queueTimeout = queueTimeout
    self.rate = rate
    self.retryBudget = retryBudget
    self.lostCalls = lostCalls
  }
}

extension BreakerPolicy {
  /// The number of consecutive failures that opens a breaker when no trip condition is set.
  package static let defaultMaxFailures = 5

  /// The number of consecutive failures that opens a breaker, default included; nil if none does.
  @_spi(Command) public var consecutiveFailuresToOpen: Int? {
    if let maxFailures { return maxFailures }
    let hasOtherCondition = failures != nil || failureRate != nil || slowRate != nil
    return hasOtherCondition ? nil : Self.defaultMaxFailures
  }

  /// The fewest calls over which a rate is judged, default included.
  package var callsToJudge: Int { minCalls ?? min(10, last ?? 10) }

  /// How many units of work may be under way; nil if any number may.
  package var limit: CallLimit? { maxConcurrent.map { CallLimit($0, reserved: reserve ?? 0) } }

  /// Whether the policy limits how many calls are under way or begin.
  package var boundsCalls: Bool { maxConcurrent != nil || rate != nil }

  /// Whether the buckets of time in which calls succeed have to be marked.
  package var marksSuccesses: Bool { window != nil || retryBudget != nil }

  /// The limit of calls that take room: `max-concurrent`, or else so much room that only a ramp or a rate bounds them.
  package var room: CallLimit { limit ?? CallLimit(Self.mostWaiting) }

  /// How many callers may wait for room, default included.
  package var placesToWait: Int { queueTimeout == nil ? 0 : queue ?? Self.mostWaiting }

  /// The most callers that can wait for one breaker, and the most units that can be under way.
  package static let mostWaiting = 1_024

  /// Whether a call took so long that this policy considers it slow.
  package func isSlow(_ elapsed: Duration?) -> Bool {
    guard let slowAfter, let elapsed else { return false }
    return elapsed >= slowAfter
  }
}

extension BreakerPolicy {
  /// How a call counts whose process ended while it was under way, unless the process exited by itself.
  ///
  /// A later version may add cases, so end a `switch` over it with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  public enum LostCalls: String, Sendable, Hashable, CaseIterable {
    /// It has no outcome.
    case ignored

    /// It has failed, at the time when another process notices it.
    ///
    /// A hung call that a supervisor ends with SIGKILL then counts. So does each call of a process that
    /// ends for another reason, such as the SIGTERM of a deployment, or `_exit`. A probe has failed when it began, and
    /// also if its process exited by itself in the middle of it.
    case failure
  }
}

extension BreakerPolicy {
  /// A share from 0% to 100%, exact to one part in a million.
  ///
  /// The share is a whole number of millionths, not a floating-point number, so `>=` is exact at the
  /// boundary: 7 of 100 calls are 7%.
  public struct Rate: Sendable, Hashable, Comparable, ExpressibleByFloatLiteral {
    /// The share in millionths: 500,000 is one half.
    public let partsPerMillion: Int64

    /// Creates a rate of this many millionths.
    public init(partsPerMillion: Int64) { self.partsPerMillion = partsPerMillion }

    /// Creates a rate from a fraction: `0.5` is one half.
    public init(floatLiteral fraction: Double) { self.init(fraction) }

    /// Creates a rate from a fraction, rounded to the nearest millionth.
    ///
    /// A fraction that is negative or not a number becomes a rate that every policy refuses.
    public init(_ fraction: Double) {
      let parts = (fraction * 1_000_000).rounded()
      partsPerMillion = fraction >= 0 && parts < 1e15 ? Int64(parts) : -1
    }

    /// Creates a rate from a percentage.
    public static func percent(_ percent: Double) -> Rate { Rate(percent / 100) }

    /// Orders rates by size.
    public static func < (left: Rate, right: Rate) -> Bool {
      left.partsPerMillion < right.partsPerMillion
    }

    /// Whether `part` of `whole` is at least this rate.
    package func isReached(by part: Int64, of whole: Int64) -> Bool {
      part.multipliedSaturating(by: 1_000_000)
        >= partsPerMillion.multipliedSaturating(by: whole)
    }

    /// The largest part of `whole` that does not exceed this rate.
    package func largestPart(of whole: Int64) -> Int64 {
      partsPerMillion.multipliedSaturating(by: whole) / 1_000_000
    }

    /// The smallest part of `whole` that reaches this rate.
    package func smallestPart(of whole: Int64) -> Int64 {
      let scaled = partsPerMillion.multipliedSaturating(by: whole)
      return scaled / 1_000_000 + (scaled % 1_000_000 > 0 ? 1 : 0)
    }
  }
}

/// How many other hosts must have a breaker open before this host suspects its own.
///
/// A later version may add cases, so end a `switch` over a quorum with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum FleetQuorum: Sendable, Hashable {
  /// This many other hosts.
  case hosts(Int)

  /// This share of the hosts of the fleet that were seen lately, but at least two hosts.
  case share(BreakerPolicy.Rate)

  /// Returns how many other hosts that is, if so many hosts of the fleet were seen lately.
  ///
  /// A share is rounded up: 30% of 11 hosts are 4.
  public func hosts(ofFleet seen: Int) -> Int {
    switch self {
    case .hosts(let count): count
    case .share(let rate): max(least, Int(clamping: rate.smallestPart(of: Int64(seen))))
    }
  }

  /// The fewest hosts that can be a quorum, however small the fleet is.
  package var least: Int {
    switch self {
    case .hosts(let count): count
    case .share: 2
    }
  }
}

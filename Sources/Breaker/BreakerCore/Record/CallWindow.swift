/// The calls over which a policy computes its rates.
package enum CallWindow: Sendable, Hashable {
  case none
  case time(TimeWindow)
  case last(LastCallsWindow)

  /// Creates an empty window of the shape that the policy asks for.
  package init(for policy: BreakerPolicy) {
    if let window = policy.window {
      self = .time(TimeWindow(length: window.inNanoseconds))
    } else if let last = policy.last {
      self = .last(LastCallsWindow(capacity: last))
    } else {
      self = .none
    }
  }

  /// Whether the window has the shape that the policy asks for.
  package func fits(_ policy: BreakerPolicy) -> Bool {
    switch self {
    case .none: policy.window == nil && policy.last == nil
    case .time(let window): policy.window?.inNanoseconds == window.length
    case .last(let window): policy.window == nil && policy.last == window.capacity
    }
  }

  package mutating func add(isFailure: Bool, isSlow: Bool, at now: Instant) {
    switch self {
    case .none:
      break
    case .time(var window):
      self = .none
      window.add(isFailure: isFailure, isSlow: isSlow, at: now)
      self = .time(window)
    case .last(var window):
      self = .none
      window.add(isFailure: isFailure, isSlow: isSlow)
      self = .last(window)
    }
  }

  package func counts(at now: Instant) -> CallCounts {
    switch self {
    case .none: CallCounts()
    case .time(let window): window.counts(at: now)
    case .last(let window): window.counts
    }
  }

  /// How many calls the window has ever seen; 0 if it does not count them.
  package var sequence: Int64 {
    switch self {
    case .none, .time: 0
    case .last(let window): window.sequence
    }
  }

  /// Whether a process's report concerns calls that the window covers at `now`.
  package func covers(_ reporter: Reporter, at now: Instant) -> Bool {
    switch self {
    case .none: false
    case .time(let window): reporter.at >= window.start(at: now)
    case .last(let window): reporter.call > window.sequence - Int64(window.capacity)
    }
  }
}

/// How many calls a window has seen, and how they went.
package struct CallCounts: Sendable, Hashable {
  package var calls: Int64 = 0
  package var failures: Int64 = 0
  package var slow: Int64 = 0

  package init() {}
}

/// The outcomes of the last N calls.
package struct LastCallsWindow: Sendable, Hashable {
  package static let failureFlag: UInt8 = 1
  package static let slowFlag: UInt8 = 2

  /// How many calls the window remembers.
  package let capacity: Int

  /// One byte of flags for each call; the oldest is overwritten first.
  package var calls: [UInt8]

  /// How many calls the window has ever seen.
  package var sequence: Int64

  package init(capacity: Int) {
    self.capacity = capacity
    calls = []
    sequence = 0
  }

  package mutating func add(isFailure: Bool, isSlow: Bool) {
    let flags = (isFailure ? Self.failureFlag : 0) | (isSlow ? Self.slowFlag : 0)
    if calls.count < capacity {
      calls.append(flags)
    } else {
      calls[Int(sequence % Int64(capacity))] = flags
    }
    sequence += 1
  }

  /// Adds successful calls; if there are more than the window holds, only the latest remain.
  package mutating func add(successes: Int64) {
    let forgotten = max(0, successes - Int64(capacity))
    // So many successes push every earlier call out of the window.
    if forgotten > 0 {
      calls = Array(repeating: 0, count: capacity)
      sequence += forgotten
    }
    for _ in 0..<(successes - forgotten) { add(isFailure: false, isSlow: false) }
  }

  package var counts: CallCounts {
    var sum = CallCounts()
    sum.calls = Int64(calls.count)
    for flags in calls {
      sum.failures += flags & Self.failureFlag != 0 ? 1 : 0
      sum.slow += flags & Self.slowFlag != 0 ? 1 : 0
    }
    return sum
  }
}

/// Call counts over the most recent period, kept in ten buckets.
///
/// The window covers the current bucket and the nine before it, so it spans from nine tenths of its
/// length to its full length.
package struct TimeWindow: Sendable, Hashable {
  package static let bucketCount = 10

  package struct Bucket: Sendable, Hashable {
    package var epoch: Int64 = -1
    package var counts = CallCounts()

    package init() {}
  }

  /// The length of the whole window.
  package let length: Int64
  package var buckets: [Bucket]

  package init(length: Int64) {
    self.length = length
    buckets = Array(repeating: Bucket(), count: Self.bucketCount)
  }

  /// The width of each bucket in a window of this length.
  package static func width(ofLength length: Int64) -> Int64 {
    max(1, length / Int64(bucketCount))
  }

  private var width: Int64 { Self.width(ofLength: length) }

  private func epoch(of instant: Instant) -> Int64 {
    max(0, instant.nanoseconds) / width
  }

  /// The first instant whose calls count at `now`.
  package func start(at now: Instant) -> Instant {
    Instant(nanoseconds: (epoch(of: now) - Int64(Self.bucketCount) + 1) * width)
  }

  package mutating func add(isFailure: Bool, isSlow: Bool, at now: Instant) {
    let index = bucket(at: now)
    buckets[index].counts.calls += 1
    buckets[index].counts.failures += isFailure ? 1 : 0
    buckets[index].counts.slow += isSlow ? 1 : 0
  }

  /// Adds successful calls, unless their bucket has already left the window.
  package mutating func add(successes: Int64, at instant: Instant) {
    let newest = buckets.reduce(-1) { max($0, $1.epoch) }
    guard epoch(of: instant) > newest - Int64(Self.bucketCount) else { return }
    buckets[bucket(at: instant)].counts.calls += successes
  }

  /// The bucket of an instant, cleared first if it still holds an earlier period.
  private mutating func bucket(at instant: Instant) -> Int {
    let epoch = epoch(of: instant)
    let index = Int(epoch % Int64(Self.bucketCount))
    if buckets[index].epoch != epoch {
      buckets[index] = Bucket()
      buckets[index].epoch = epoch
    }
    return index
  }

  /// Clears buckets that begin after `now` by more than the length of the window.
  mutating func forgetFuture(at now: Instant) {
    let latest = epoch(of: now) + Int64(Self.bucketCount)
    for index in buckets.indices where buckets[index].epoch > latest { buckets[index] = Bucket() }
  }

  package func counts(at now: Instant) -> CallCounts {
    let newest = epoch(of: now)
    let oldest = newest - Int64(Self.bucketCount) + 1
    var sum = CallCounts()
    for bucket in buckets where bucket.epoch >= oldest && bucket.epoch <= newest {
      sum.calls += bucket.counts.calls
      sum.failures += bucket.counts.failures
      sum.slow += bucket.counts.slow
    }
    return sum
  }
}

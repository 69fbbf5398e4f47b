@testable import BreakerCore

/// A breaker on the bench: a record and its policy, with a clock and processes moved by hand.
struct Bench {
  var record = BreakerRecord()
  var policy: BreakerPolicy
  var now = Moment.start
  var gone: Set<ProcessIdentity> = []
  var jitter = 0.5
  var events: [BreakerEvent] = []

  init(_ policy: BreakerPolicy = BreakerPolicy()) { self.policy = policy }

  var state: BreakerState { record.state }

  /// What the history has of the transitions, as `closed>open`.
  var transitions: [String] { events.filter { $0.kind == .transition }.map(\.arrow) }

  /// How long the breaker stays open yet.
  var openRemaining: Duration? {
    record.openRemaining(at: now.boot).map { .nanoseconds($0) }
  }

  mutating func advance(by time: Duration) {
    now.boot = now.boot.advanced(by: time.inNanoseconds)
    now.wallMilliseconds += time.inNanoseconds / 1_000_000
  }

  func assess() -> Assessment {
    record.assessed(at: now.boot, policy: policy) { gone.contains($0) }
  }

  mutating func request(by owner: ProcessIdentity? = .worker) -> Verdict {
    let step = record.requested(at: now, by: owner, policy: policy, jitter: jitter) {
      gone.contains($0)
    }
    events += step.events
    return step.answer
  }

  /// The permit that a request is given, or nil if it is rejected.
  mutating func permit(for owner: ProcessIdentity? = .worker) -> PermitGrant? {
    if case .permitted(let grant) = request(by: owner) { return grant }
    return nil
  }

  @discardableResult mutating func report(
    _ outcome: Outcome, for permit: PermitGrant?, elapsed: Duration? = nil,
    by reporter: ProcessIdentity? = .worker
  ) -> ReportVerdict? {
    guard let permit else { return nil }
    let step = record.reported(
      outcome, for: permit, elapsed: elapsed, at: now, by: reporter, policy: policy,
      jitter: jitter
    ) { gone.contains($0) }
    events += step.events
    return step.answer
  }

  /// Makes one call that ends at once; nil if it is rejected.
  @discardableResult mutating func call(
    _ outcome: Outcome, elapsed: Duration? = nil, by process: ProcessIdentity? = .worker
  ) -> ReportVerdict? {
    let permit = permit(for: process)
    return report(outcome, for: permit, elapsed: elapsed, by: process)
  }

  mutating func calls(_ count: Int, _ outcome: Outcome, elapsed: Duration? = nil) {
    for _ in 0..<count { call(outcome, elapsed: elapsed) }
  }

  mutating func trip(for time: Duration? = nil, reason: String? = nil) {
    events +=
      record.tripped(for: time, reason: reason, at: now, policy: policy, jitter: jitter).events
  }

  mutating func reset(reason: String? = nil) {
    events += record.reset(reason: reason, at: now).events
  }

  mutating func set(
    _ mode: BreakerMode, for time: Duration? = nil, reason: String? = nil, by author: String = "ann"
  ) {
    events += record.modeSet(to: mode, for: time, reason: reason, by: author, at: now).events
  }

  /// Opens the breaker and waits until it is due for a probe.
  mutating func becomeDue() {
    trip()
    advance(by: openRemaining ?? .zero)
  }
}

extension Moment {
  /// An instant at which the buckets of any window of whole seconds begin.
  static let start = Moment(
    boot: Instant(nanoseconds: 1_000_000_000_000_000), wallMilliseconds: 1_800_000_000_000)
}

extension ProcessIdentity {
  static let worker = process(1)

  static func process(_ number: Int) -> ProcessIdentity {
    ProcessIdentity(pid: Int32(number), startTicks: UInt64(number) * 7, pidNamespace: 4)
  }
}

extension BreakerEvent {
  /// The event without its reason: `closed>open`, or `mode:observe>automatic`.
  var arrow: String {
    kind == .transition ? "\(from)>\(to)" : "\(kind.wireName):\(from)>\(to)"
  }
}

extension Verdict {
  var rejection: Rejection? {
    if case .rejected(let rejection) = self { return rejection }
    return nil
  }
}

extension Duration {
  static let nanosecond = Duration.nanoseconds(1)
}

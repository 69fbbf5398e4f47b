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

  /// The transitions in the history, as `closed>open`.
  var transitions: [String] { events.filter { $0.change.kind == .transition }.map(\.arrow) }

  /// How much longer the breaker stays open.
  var openRemaining: Duration? {
    record.openRemaining(at: now.boot).map { .nanoseconds($0) }
  }

  mutating func advance(by time: Duration) {
    now.boot = now.boot.advanced(by: time.inNanoseconds)
    now.wallMilliseconds += time.inNanoseconds / 1_000_000
  }

  /// The record as a caller that only asks sees it.
  var look: BreakerRecord { record.settled(at: now, policy: policy, isGone: gone.contains) }

  func assess() -> Assessment {
    record.assessed(at: now.boot, policy: policy, isGone: gone.contains)
  }

  /// Brings the record up to now, as a store does before every step.
  mutating func settle() {
    events += record.settle(at: now, policy: policy, isGone: gone.contains)
  }

  private mutating func step<Answer>(_ body: (inout Bench) -> Step<Answer>) -> Answer {
    settle()
    let step = body(&self)
    events += step.events
    return step.answer
  }

  mutating func request(
    by owner: ProcessIdentity? = .worker, probeTimeout: Duration? = nil
  ) -> Decision<PermitGrant> {
    step {
      $0.record.requested(at: $0.now, by: owner, probeTimeout: probeTimeout, policy: $0.policy)
    }
  }

  /// The permit that a request gets, or nil if the breaker rejects it.
  mutating func permit(
    for owner: ProcessIdentity? = .worker, probeTimeout: Duration? = nil
  ) -> PermitGrant? {
    if case .permitted(let grant) = request(by: owner, probeTimeout: probeTimeout) { return grant }
    return nil
  }

  mutating func renew(_ permit: PermitGrant?, for time: Duration? = nil) -> Bool? {
    guard let permit else { return nil }
    return step { $0.record.renewed(permit, for: time, at: $0.now, policy: $0.policy) }
  }

  @discardableResult mutating func report(
    _ outcome: CallOutcome, for permit: PermitGrant?, elapsed: Duration? = nil,
    by reporter: ProcessIdentity? = .worker
  ) -> ReportVerdict? {
    guard let permit else { return nil }
    return step {
      $0.record.reported(
        outcome, for: permit, elapsed: elapsed, at: $0.now, by: reporter, policy: $0.policy,
        jitter: $0.jitter)
    }
  }

  /// Loses calls that were under way when their processes ended.
  mutating func lose(_ calls: Int, of processes: ProcessIdentity...) {
    step {
      $0.record.lost(
        calls, of: processes, at: $0.now, policy: $0.policy, jitter: $0.jitter)
    }
  }

  /// Makes one call that ends at once; nil if the breaker rejects it.
  @discardableResult mutating func call(
    _ outcome: CallOutcome, elapsed: Duration? = nil, by process: ProcessIdentity? = .worker
  ) -> ReportVerdict? {
    let permit = permit(for: process)
    return report(outcome, for: permit, elapsed: elapsed, by: process)
  }

  mutating func calls(_ count: Int, _ outcome: CallOutcome, elapsed: Duration? = nil) {
    for _ in 0..<count { call(outcome, elapsed: elapsed) }
  }

  mutating func trip(for time: Duration? = nil, reason: String? = nil) {
    step {
      $0.record.tripped(
        for: time, reason: reason, at: $0.now, policy: $0.policy, jitter: $0.jitter)
    }
  }

  mutating func reset(reason: String? = nil) {
    step { $0.record.reset(reason: reason, at: $0.now, policy: $0.policy) }
  }

  /// Tells the breaker that other hosts have it open; returns whether that changes it.
  @discardableResult mutating func suspect(by hosts: Int = 3) -> Bool {
    step { $0.record.suspected(by: hosts, at: $0.now, policy: $0.policy) }
  }

  /// Tells the breaker that a probe has succeeded on another host; returns whether that changes it.
  @discardableResult mutating func recover(on host: String = "b") -> Bool {
    step { $0.record.recovered(on: host, at: $0.now, policy: $0.policy, part: $0.jitter) }
  }

  mutating func set(
    _ mode: BreakerMode, for time: Duration? = nil, reason: String? = nil, by author: String = "ann"
  ) {
    step { $0.record.modeSet(to: mode, for: time, reason: reason, by: author, at: $0.now) }
  }

  @discardableResult mutating func hold(
    for time: Duration?, reason: String? = nil, by giver: HoldGiver = .program("app")
  ) -> HoldEffect {
    let wish = CallOutcome.Hold(time.map { .lasting($0) }, reason: reason)
    return step { $0.record.heldBack(wish, by: giver, at: $0.now, policy: $0.policy) }
  }

  @discardableResult mutating func endHold(reason: String? = nil) -> Bool {
    step { $0.record.holdEnded(reason: reason, at: $0.now, policy: $0.policy) }
  }

  /// Opens the breaker, unless it is open, and waits until it is due for a probe.
  mutating func becomeDue() {
    if state != .open { trip() }
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
    (change.kind == .transition ? "" : "\(change.wireKind):")
      + "\(change.wireFrom)>\(change.wireTo)"
  }
}

extension Decision<PermitGrant> {
  var rejection: Rejection? {
    if case .rejected(let rejection) = self { return rejection }
    return nil
  }
}

extension Duration {
  static let nanosecond = Duration.nanoseconds(1)
}

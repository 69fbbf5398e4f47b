/// One probe's hold on a slot, with its owner and its deadline.
package struct ProbeLease: Sendable, Hashable {
  package var id: Int64

  /// The generation in which the probe was permitted.
  package var generation: Int64

  /// The process that frees the slot when it ends; nil if only the deadline frees it.
  package var owner: ProcessIdentity?

  /// When the probe began; nil if an earlier version granted the lease.
  package var began: Instant?
  package var deadline: Instant

  package init(
    id: Int64, generation: Int64, owner: ProcessIdentity?, began: Instant? = nil, deadline: Instant
  ) {
    self.id = id
    self.generation = generation
    self.owner = owner
    self.began = began
    self.deadline = deadline
  }

  /// The number, from 0 up to 1, that decides the jitter if the breaker opens at the deadline.
  ///
  /// No process draws a random number at that instant, so every process derives the same one.
  package var jitter: Double {
    var mixed: UInt64 = 0
    for number in [generation, id, deadline.nanoseconds] {
      mixed = (mixed ^ UInt64(bitPattern: number)) &+ 0x9E37_79B9_7F4A_7C15
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      mixed ^= mixed >> 31
    }
    return Double(mixed >> 11) * 0x1p-53
  }
}

extension ProbeLease {
  /// The shortest wait that callers are told; with less, callers that obey would ask incessantly.
  private static let shortestWait: Int64 = 10_000_000

  /// How long to wait for a probe if it is not known how long probes take.
  private static let longestGuess: Int64 = 1_000_000_000

  /// When it makes sense to ask whether a probe that is still under way has ended.
  ///
  /// The first time is when it has taken as long as probes usually take, then twice as long, and so
  /// on, but at least once a second, and at its deadline. All processes that ask before such an
  /// instant are told the same one. A probe that is quicker than usual costs a wait, and a slower
  /// one a few questions.
  func nextLook(after now: Instant, usually usual: Int64?) -> Instant {
    guard let began else { return min(deadline, now.advanced(by: Self.longestGuess)) }
    let passed = max(0, now.since(began))
    var look = max(Self.shortestWait, usual ?? Self.longestGuess)
    while look <= passed, look < Self.longestGuess { look *= 2 }
    let isOver = look <= passed
    let wait =
      isOver ? Self.longestGuess - (passed - look) % Self.longestGuess : look - passed
    return min(deadline, now.advanced(by: wait))
  }
}

/// Slots for probes.
extension BreakerRecord {
  /// When it makes sense to ask for a slot again; nil if a probe may start now.
  ///
  /// Every probe under way holds one of the `probes` slots, whichever round it belongs to. Only
  /// probes of the current round count towards `probe-calls`.
  func nextSlot(after now: Instant, _ policy: BreakerPolicy) -> Instant? {
    func look(_ lease: ProbeLease) -> Instant {
      lease.nextLook(after: now, usually: usualProbeNanoseconds)
    }
    let own = leases.filter { isOfThisState($0.generation) }.map(look)
    let excess = leases.count - policy.probes
    let made = Int64(own.count) + probeSuccesses + probeFailures
    // If no probe of this round is under way, one may always start, or the round would never end.
    let areEnough = !own.isEmpty && policy.probeCalls.map { made >= Int64($0) } == true
    // After probes that were lost one after the other.
    let pause = openUntil.flatMap { now < $0 ? $0 : nil }
    guard excess >= 0 || areEnough || pause != nil else { return nil }
    // A probe of this round may end the round, which changes the answer.
    var looks = own
    if excess >= 0 { looks.append(leases.map(look).sorted()[excess]) }
    if let pause { looks.append(pause) }
    return looks.min()
  }

  mutating func grantProbe(
    at now: Instant, to owner: ProcessIdentity?, for time: Duration?, policy: BreakerPolicy
  ) -> PermitGrant {
    lastLease += 1
    let usual = isSuspected ? Self.patience(usually: usualProbeNanoseconds) : .zero
    let deadline = Self.deadline(at: now, after: max(time ?? .zero, policy.probeTimeout, usual))
    leases.append(
      ProbeLease(
        id: lastLease, generation: generation, owner: owner, began: now, deadline: deadline))
    return PermitGrant(
      kind: .probe, generation: generation, lease: lastLease, deadline: deadline)
  }

  /// Extends the lease of a probe that is still under way; answers false if its outcome will not count.
  ///
  /// The deadline moves to `time` from now, or to `probe-timeout` from now, and never to an earlier
  /// instant. The record must have been settled at `now`.
  package mutating func renewed(
    _ permit: PermitGrant, for time: Duration?, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    // The outcome of a call that went first after a hold counts in any case. It gets no more time, for which all others
    // would have to wait.
    if wentFirst(permit) { return Step(answer: true, events: []) }
    guard let index = indexOfLease(permit) else { return Step(answer: false, events: []) }
    let deadline = Self.deadline(at: now.boot, after: time ?? policy.probeTimeout)
    leases[index].deadline = max(leases[index].deadline, deadline)
    return Step(answer: true, events: [])
  }

  /// Frees the slot of a probe that reports; answers the lease, or nil if the probe held none.
  mutating func endLease(_ permit: PermitGrant) -> ProbeLease? {
    indexOfLease(permit).map { leases.remove(at: $0) }
  }

  /// Notes how long a successful probe took.
  ///
  /// Callers wait for a probe to succeed; after a failure they would have to wait anyway. So a failure
  /// does not count, however long it took.
  mutating func noteSuccess(of lease: ProbeLease, elapsed: Duration?, at now: Instant) {
    guard let began = lease.began else { return }
    let took = max(0, elapsed?.inNanoseconds ?? now.since(began))
    usualProbeNanoseconds = usualProbeNanoseconds.map { $0.addingSaturating(took) / 2 } ?? took
  }

  /// Notes how long a probe took that succeeded after its lease had ended.
  ///
  /// The breaker has gone on without it, but it shows that calls can take that long here.
  mutating func noteLateSuccess(after elapsed: Duration) {
    let took = max(0, elapsed.inNanoseconds)
    usualProbeNanoseconds = max(usualProbeNanoseconds ?? 0, took)
  }

  /// How long a probe may take if only the word of other hosts has caused it: three times as long as
  /// probes usually take here.
  ///
  /// A probe that is no slower than usual says nothing bad about the resource.
  private static func patience(usually usual: Int64?) -> Duration {
    .nanoseconds((usual ?? 0).multipliedSaturating(by: 3))
  }

  private func indexOfLease(_ permit: PermitGrant) -> Int? {
    leases.firstIndex { $0.id == permit.lease && $0.generation == permit.generation }
  }

  private static func deadline(at now: Instant, after time: Duration) -> Instant {
    now.advanced(by: min(time, BreakerPolicy.longestDuration).inNanoseconds)
  }
}

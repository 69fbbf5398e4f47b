/// One probe's hold on a slot: who holds it, and until when.
package struct ProbeLease: Sendable, Hashable {
  package var id: Int64

  /// The generation in which the probe was permitted.
  package var generation: Int64

  /// The process that frees the slot when it ends; nil if only the deadline frees it.
  package var owner: ProcessIdentity?
  package var deadline: Instant

  package init(id: Int64, generation: Int64, owner: ProcessIdentity?, deadline: Instant) {
    self.id = id
    self.generation = generation
    self.owner = owner
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

/// Slots for probes.
extension BreakerRecord {
  /// When another probe may start at the latest; nil if one may start now.
  ///
  /// Every probe under way holds one of the `probes` slots, whichever round it belongs to. Only
  /// probes of the current round count towards `probe-calls`.
  func nextSlot(_ policy: BreakerPolicy) -> Instant? {
    let own = leases.filter { $0.generation == generation }.map(\.deadline)
    let excess = leases.count - policy.probes
    let made = Int64(own.count) + probeSuccesses + probeFailures
    // If no probe of this round is under way, one may always start, or the round would never end.
    let areEnough = !own.isEmpty && policy.probeCalls.map { made >= Int64($0) } == true
    guard excess >= 0 || areEnough else { return nil }
    // A probe of this round that fails at its deadline ends the round, which changes the answer.
    let first = own.min()
    guard excess >= 0 else { return first }
    let free = leases.map(\.deadline).sorted()[excess]
    return first.map { min($0, free) } ?? free
  }

  mutating func grantProbe(
    at now: Instant, to owner: ProcessIdentity?, for time: Duration?, policy: BreakerPolicy
  ) -> PermitGrant {
    lastLease += 1
    let deadline = Self.deadline(at: now, after: max(time ?? .zero, policy.probeTimeout))
    leases.append(
      ProbeLease(id: lastLease, generation: generation, owner: owner, deadline: deadline))
    return PermitGrant(
      kind: .probe, generation: generation, lease: lastLease, deadline: deadline)
  }

  /// Extends the lease of a probe that is still under way; answers false if it is not.
  ///
  /// The deadline moves to `time` from now, or to `probe-timeout` from now, and never to an earlier
  /// instant. The record must have been settled at `now`.
  package mutating func renewed(
    _ permit: PermitGrant, for time: Duration?, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    guard let index = indexOfLease(permit) else { return Step(answer: false, events: []) }
    let deadline = Self.deadline(at: now.boot, after: time ?? policy.probeTimeout)
    leases[index].deadline = max(leases[index].deadline, deadline)
    return Step(answer: true, events: [])
  }

  /// Frees the slot of a probe that reports; answers false if the probe held none.
  mutating func endLease(_ permit: PermitGrant) -> Bool {
    guard let index = indexOfLease(permit) else { return false }
    leases.remove(at: index)
    return true
  }

  private func indexOfLease(_ permit: PermitGrant) -> Int? {
    leases.firstIndex { $0.id == permit.lease && $0.generation == permit.generation }
  }

  private static func deadline(at now: Instant, after time: Duration) -> Instant {
    now.advanced(by: min(time, BreakerPolicy.longestDuration).inNanoseconds)
  }
}

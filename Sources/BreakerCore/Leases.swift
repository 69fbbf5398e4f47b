/// One probe's hold on a slot: who has it, and until when.
package struct ProbeLease: Sendable, Hashable {
  package var id: Int64

  /// The generation that the probe was let through in.
  package var generation: Int64

  /// The process whose end frees the slot; nil if only the deadline does.
  package var owner: ProcessIdentity?
  package var deadline: Instant

  package init(id: Int64, generation: Int64, owner: ProcessIdentity?, deadline: Instant) {
    self.id = id
    self.generation = generation
    self.owner = owner
    self.deadline = deadline
  }

  /// What decides on the jitter if the breaker opens at the deadline: from 0 up to 1.
  ///
  /// Nobody is there at that instant to draw a number, so everyone works out the same one.
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
  /// Every probe that is under way holds one of the `probes` slots, whichever round it is of;
  /// towards `probe-calls` only those of this round count.
  func nextSlot(_ policy: BreakerPolicy) -> Instant? {
    let own = leases.filter { $0.generation == generation }.map(\.deadline)
    let excess = leases.count - policy.probes
    let made = Int64(own.count) + probeSuccesses + probeFailures
    // With none of this round under way one may always start, or the round would never end.
    let areEnough = !own.isEmpty && policy.probeCalls.map { made >= Int64($0) } == true
    guard excess >= 0 || areEnough else { return nil }
    // A probe of this round that fails at its deadline ends the round, which is an answer too.
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

  /// Gives a probe that is still under way more time, and answers whether it is.
  ///
  /// The deadline moves to `time` from now, or to another `probe-timeout`, and never to an earlier
  /// instant. The record has been settled at `now`.
  package mutating func renewed(
    _ permit: PermitGrant, for time: Duration?, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    guard let index = indexOfLease(permit) else { return Step(answer: false, events: []) }
    let deadline = Self.deadline(at: now.boot, after: time ?? policy.probeTimeout)
    leases[index].deadline = max(leases[index].deadline, deadline)
    return Step(answer: true, events: [])
  }

  /// Frees the slot of a probe that reports, and answers whether it held one.
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

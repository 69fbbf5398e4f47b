@testable import BreakerCore

/// What the rules make of the facts.
extension NaiveBreaker {
  /// `quarters` of the way from 0 to 1 is what was drawn for the jitter.
  struct Circumstances {
    var now: Int
    var quarters: Int
    var gone: Set<ProcessIdentity>
  }

  mutating func request(by owner: ProcessIdentity, _ given: Circumstances) -> Verdict {
    tidyUp(given)
    let mode = lastMode
    func reject(_ wait: Int?) -> Verdict {
      if mode.mode == .observe {
        facts.append(.counted(\.wouldReject))
        return .permitted(PermitGrant(kind: .normal, generation: 0, wouldReject: true))
      }
      facts.append(.counted(\.rejections))
      return .rejected(
        Rejection(state: state, mode: mode.mode, retryAfter: wait.map { .nanoseconds($0) }))
    }
    if mode.mode == .forcedClosed {
      return .permitted(PermitGrant(kind: .normal, generation: 0))
    }
    if mode.mode == .forcedOpen {
      return reject(mode.until.map { max($0, openUntil ?? 0) - given.now })
    }
    switch state {
    case .closed:
      return .permitted(PermitGrant(kind: .normal, generation: generation))
    case .open:
      if let openUntil, openUntil > given.now { return reject(openUntil - given.now) }
      facts.append(.halfOpened)
      arrows.append("open>half_open")
    case .halfOpen:
      let held = leases
      let isFull = held.count >= policy.probes
      let made = held.count + probeSuccesses + probeFailures
      let areEnough = policy.probeCalls.map { made >= $0 } ?? false
      if !held.isEmpty, isFull || areEnough {
        return reject(held.map { $0.deadline - given.now }.min())
      }
    }
    let lease = Lease(
      id: lastLease + 1, owner: owner, deadline: given.now + nanoseconds(policy.probeTimeout))
    facts.append(.probeGranted(lease))
    return .permitted(
      PermitGrant(
        kind: .probe, generation: generation, lease: lease.id,
        deadline: Instant(nanoseconds: Int64(lease.deadline))))
  }

  mutating func report(
    _ outcome: Outcome, for permit: PermitGrant, elapsed: Duration?, by reporter: ProcessIdentity,
    _ given: Circumstances
  ) -> ReportVerdict {
    tidyUp(given)
    let isCurrent = permit.generation == generation
    let holds = isCurrent && leases.contains { $0.id == permit.lease }
    if permit.kind == .probe, !holds {
      let isLate = permit.deadline.map { given.now >= Int($0.nanoseconds) } ?? true
      if isCurrent || isLate { return .refused }
    }
    if holds { facts.append(.leaseEnded(permit.lease)) }
    let isSlow = policy.slowAfter.map { (elapsed ?? .zero) >= $0 } ?? false
    var failure: Failure?
    switch outcome {
    case .success: facts.append(.counted(\.successes))
    case .ignored: facts.append(.counted(\.ignored))
    case .failure(let what):
      failure = what
      facts.append(.counted(\.failures))
    }
    if isSlow, outcome != .ignored { facts.append(.counted(\.slow)) }
    guard isJudging, isCurrent, state == .closed || holds else { return .outdated }
    if outcome == .ignored { return .counted }
    if state == .halfOpen {
      let isTooSlow = isSlow && policy.slowRate != nil
      probeEnded(hasFailed: failure != nil || isTooSlow, failure?.kind, given)
    } else {
      let call = Call(
        at: given.now, hasFailed: failure != nil, isSlow: isSlow, reporter: reporter)
      facts.append(.called(call))
      callEnded(call, failure?.kind, given)
    }
    return .counted
  }

  mutating func trip(for time: Duration?, _ given: Circumstances) {
    endMode(given)
    open(for: time.map { min(nanoseconds($0), 365 * 86_400_000_000_000) }, given)
  }

  mutating func reset(_ given: Circumstances) {
    endMode(given)
    arrows.append("reset:\(state.wireName)>closed")
    facts.append(.reset(at: given.now))
  }

  mutating func set(_ mode: BreakerMode, for time: Duration?, _ given: Circumstances) {
    endMode(given)
    arrows.append("mode:\(lastMode.mode.wireName)>\(mode.wireName)")
    let until = time.map { given.now + nanoseconds($0) }
    facts.append(.modeSet(mode, until: mode == .automatic ? nil : until))
  }
}

extension NaiveBreaker {
  /// Whether outcomes move the state; to be asked once a mode that is over has been ended.
  private var isJudging: Bool { [.automatic, .observe].contains(lastMode.mode) }

  private mutating func endMode(_ given: Circumstances) {
    guard let until = lastMode.until, until <= given.now else { return }
    arrows.append("mode:\(lastMode.mode.wireName)>automatic")
    facts.append(.modeSet(.automatic, until: nil))
  }

  private mutating func tidyUp(_ given: Circumstances) {
    endMode(given)
    guard isJudging else { return }
    for lease in leases where given.gone.contains(lease.owner) {
      facts.append(.leaseEnded(lease.id))
    }
    while let late = leases.first(where: { $0.deadline <= given.now }) {
      facts.append(.leaseEnded(late.id))
      probeEnded(hasFailed: true, nil, given)
    }
  }

  private mutating func open(for named: Int?, _ given: Circumstances) {
    // Shares of jitter are quarters, and so is the draw, which makes the variation some eighths.
    let share = Int(policy.jitter.partsPerMillion / 250_000)
    let plain = plainOpenTime(tripsInARow(at: given.now))
    let varied = max(1, plain * (8 + share * (given.quarters - 2)) / 8)
    let length = named ?? min(varied, nanoseconds(policy.openMax ?? .seconds(365 * 86_400)))
    arrows.append("\(state.wireName)>open")
    facts.append(.opened(at: given.now, until: given.now + length, from: state))
  }

  private func namedTime(_ kind: Failure.Kind?) -> Int? {
    guard case .opens(let time) = kind else { return nil }
    return max(0, nanoseconds(min(time, policy.openMax ?? .seconds(86_400))))
  }

  private mutating func probeEnded(
    hasFailed: Bool, _ kind: Failure.Kind?, _ given: Circumstances
  ) {
    facts.append(hasFailed ? .probeFailed : .probeSucceeded)
    let isEnough: Bool
    if let calls = policy.probeCalls, let rate = policy.probeFailureRate {
      // It opens when the rate is reached for sure, and closes when it cannot be reached any more.
      let failed = hasFailed ? probeFailures : calls - probeSuccesses
      isEnough = (Int64(failed) * 1_000_000 >= rate.partsPerMillion * Int64(calls)) == hasFailed
    } else {
      isEnough = hasFailed || probeSuccesses >= policy.successesToClose
    }
    if hasFailed {
      let isFinal = kind != nil && kind != .ordinary
      if isEnough || isFinal { open(for: namedTime(kind), given) }
    } else if isEnough {
      arrows.append("half_open>closed")
      facts.append(.closed(at: given.now))
    }
  }

  private mutating func callEnded(_ call: Call, _ kind: Failure.Kind?, _ given: Circumstances) {
    let isSaidByEnough = areEnough(streak.map(\.call.reporter))
    if call.hasFailed, kind != .ordinary, isSaidByEnough {
      open(for: namedTime(kind), given)
    } else if call.hasFailed, isStreakTooLong || areTooManyWithin(given.now) {
      open(for: nil, given)
    } else if call.hasFailed, isReached(policy.failureRate, at: given.now, by: \.hasFailed) {
      open(for: nil, given)
    } else if call.isSlow, isReached(policy.slowRate, at: given.now, by: \.isSlow) {
      open(for: nil, given)
    }
  }

  private func areEnough(_ reporters: [ProcessIdentity]) -> Bool {
    policy.reporters == 1 || Set(reporters).count >= policy.reporters
  }

  private var isStreakTooLong: Bool {
    let isTheOnlyRule =
      policy.failures == nil && policy.failureRate == nil && policy.slowRate == nil
    guard let limit = policy.maxFailures ?? (isTheOnlyRule ? 5 : nil) else { return false }
    return streak.count { $0.counts } >= limit && areEnough(streak.map(\.call.reporter))
  }

  private func areTooManyWithin(_ now: Int) -> Bool {
    guard let limit = policy.failures, let within = policy.within else { return false }
    let recent = calls.filter { $0.call.hasFailed && .nanoseconds(now - $0.call.at) < within }
    return recent.count { $0.counts } >= limit && areEnough(recent.map(\.call.reporter))
  }

  private func isReached(_ rate: Rate?, at now: Int, by isBad: (Call) -> Bool) -> Bool {
    guard let rate else { return false }
    var window = calls
    if let length = policy.window {
      // Ten buckets, of which the newest is the one that `now` is in.
      let width = nanoseconds(length) / 10
      window.removeAll { $0.call.at / width <= now / width - 10 }
    } else if let last = policy.last {
      // A failure that does not count goes with the call before it.
      while window.count(where: \.counts) > last { window.removeFirst() }
      while let first = window.first, !first.counts { window.removeFirst() }
    }
    let all = window.count { $0.counts }
    let bad = window.count { $0.counts && isBad($0.call) }
    guard all >= policy.minCalls ?? min(10, policy.last ?? 10) else { return false }
    guard Int64(bad) * 1_000_000 >= rate.partsPerMillion * Int64(all) else { return false }
    return areEnough(window.filter { isBad($0.call) }.map(\.call.reporter))
  }
}

@testable import BreakerCore

/// The rules, which read the facts and add to them.
extension NaiveBreaker {
  struct Circumstances {
    var now: Int

    /// The random number for the jitter, from 0 up to 1.
    var draw: Double
    var gone: Set<ProcessIdentity>
  }

  mutating func request(
    by owner: ProcessIdentity, probeTimeout: Duration? = nil, _ given: Circumstances
  ) -> Decision<PermitGrant> {
    let mode = lastMode
    func reject(_ wait: Int?, _ cause: RejectionCause = .open) -> Decision<PermitGrant> {
      if mode.mode == .observe {
        facts.append(.counted(\.wouldReject))
        return .permitted(PermitGrant(kind: .normal, generation: 0, wouldReject: true))
      }
      facts.append(.counted(cause == .held ? \.held : \.rejections))
      return .rejected(
        Rejection(
          state: state, mode: mode.mode, retryAfter: wait.map { .nanoseconds($0) }, cause: cause))
    }
    if mode.mode == .forcedClosed {
      return .permitted(PermitGrant(kind: .normal, generation: 0))
    }
    if mode.mode == .forcedOpen {
      return reject(
        mode.until.map {
          max($0, (state == .open ? openUntil : nil) ?? 0, hold?.until ?? 0) - given.now
        })
    }
    if state == .open, let openUntil, openUntil > given.now {
      return reject(max(openUntil, hold?.until ?? 0) - given.now)
    }
    if let held = held(given.now) {
      if held.goesFirst { return .permitted(goFirst(owner, given.now)) }
      return reject(held.wait, .held)
    }
    switch state {
    case .closed:
      return .permitted(PermitGrant(kind: .normal, generation: generation))
    case .open:
      if let slot = nextSlot(given.now) { return reject(slot - given.now) }
      facts.append(.halfOpened)
      arrows.append("open>half_open")
    case .halfOpen:
      if let slot = nextSlot(given.now) { return reject(slot - given.now) }
    }
    let usual = isSuspected ? 3 * (usualProbe ?? 0) : 0
    let time = max(
      nanoseconds(policy.probeTimeout), probeTimeout.map { nanoseconds($0) } ?? 0, usual)
    let lease = Lease(
      id: lastLease + 1, generation: generation, owner: owner, began: given.now,
      deadline: given.now + time)
    facts.append(.probeGranted(lease))
    return .permitted(
      PermitGrant(
        kind: .probe, generation: generation, lease: lease.id,
        deadline: Instant(nanoseconds: Int64(lease.deadline))))
  }

  mutating func report(
    _ outcome: CallOutcome, for permit: PermitGrant, elapsed: Duration?,
    by reporter: ProcessIdentity,
    _ given: Circumstances
  ) -> ReportVerdict {
    let isCurrent = permit.generation >= generationOfState
    let wentFirst = permit.kind == .probe && state == .closed && isCurrent
    var named: Int?
    if case .hold(let wish) = outcome, case .lasting(let time) = wish.time {
      named = nanoseconds(time)
    }
    if wentFirst {
      if isHeld(permit) { facts.append(.leaseEnded(permit.lease)) }
    } else if permit.kind == .probe {
      guard isHeld(permit) else {
        if outcome.asksToHold { holdBack(named, permit: permit, given) }
        if outcome == .success, let elapsed, elapsed >= policy.probeTimeout {
          facts.append(.probeTookTooLong(nanoseconds(elapsed)))
        }
        return .refused
      }
      let began = leases.first { $0.id == permit.lease }?.began ?? given.now
      facts.append(.leaseEnded(permit.lease))
      if outcome == .success {
        facts.append(.probeTook(elapsed.map { nanoseconds($0) } ?? given.now - began))
      }
    }
    let isSlow = policy.slowAfter.map { (elapsed ?? .zero) >= $0 } ?? false
    var failure: CallOutcome.Failure?
    switch outcome {
    case .success: facts.append(.counted(\.successes))
    case .ignored: facts.append(.counted(\.ignored))
    case .hold:
      facts.append(.counted(\.ignored))
      facts.append(.counted(\.holds))
      holdBack(named, permit: permit, given)
      return .counted
    case .failure(let what):
      failure = what
      facts.append(.counted(\.failures))
    }
    if isSlow, outcome != .ignored { facts.append(.counted(\.slow)) }
    if outcome != .ignored { noteAnswer(to: permit, given) }
    guard isJudging, isCurrent else { return .outdated }
    if outcome == .ignored {
      if state == .halfOpen { facts.append(.probeIgnored) }
      return .counted
    }
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

  mutating func renew(_ permit: PermitGrant, for time: Duration?, _ given: Circumstances) -> Bool {
    if permit.kind == .probe && state == .closed && permit.generation >= generationOfState {
      return true
    }
    guard isHeld(permit) else { return false }
    for lease in leases where lease.id == permit.lease {
      let until = given.now + nanoseconds(time ?? policy.probeTimeout)
      facts.append(.leaseRenewed(lease.id, until: max(lease.deadline, until)))
    }
    return true
  }

  mutating func trip(for time: Duration?, _ given: Circumstances) {
    let named = time.map { min(nanoseconds($0), 365 * 86_400_000_000_000) }
    guard state == .open else { return open(for: named, isNamed: true, given) }
    arrows.append("extension:open>extended")
    let length = named ?? openTime(after: tripsInARow(at: given.now) - 1, given)
    facts.append(.extended(until: given.now + length))
  }

  mutating func reset(_ given: Circumstances) {
    arrows.append("reset:\(state.wireName)>closed")
    endTurns()
    facts.append(.reset(at: given.now))
  }

  mutating func suspect(by hosts: Int, _ given: Circumstances) -> Bool {
    var last: Int?
    for fact in facts {
      switch fact {
      case .suspected(let at): last = at
      case .acquitted(let at), .closed(let at), .reset(let at): last = last.map { max($0, at) }
      default: continue
      }
    }
    let isTooSoon = last.map { .nanoseconds(given.now - $0) < policy.openFor } ?? false
    let isQuorum: Bool
    switch policy.fleetQuorum {
    case .hosts(let count): isQuorum = hosts >= count
    case .share: isQuorum = hosts >= 2
    case nil: isQuorum = false
    }
    guard state == .closed, isJudging, isQuorum, !isTooSoon else { return false }
    arrows.append("suspicion:closed>half_open")
    endTurns()
    facts.append(.suspected(at: given.now))
    return true
  }

  mutating func recover(_ given: Circumstances) -> Bool {
    guard let openUntil, isJudging, !isOpenTimeNamed, let spread = policy.fleetSpread else {
      return false
    }
    guard spread > .zero, openUntil > given.now + nanoseconds(spread) else { return false }
    for case .recovered(let at, _) in facts where given.now - at < nanoseconds(policy.openFor) {
      return false
    }
    let due = given.now + Int(given.draw * Double(nanoseconds(spread)))
    arrows.append("recovery:open>due")
    facts.append(.recovered(at: given.now, until: due))
    return true
  }

  mutating func set(_ mode: BreakerMode, for time: Duration?, _ given: Circumstances) {
    arrows.append("mode:\(lastMode.mode.wireName)>\(mode.wireName)")
    let until = time.map { given.now + nanoseconds($0) }
    noteEnd(of: lastMode.mode, next: mode, at: given.now)
    facts.append(.modeSet(mode, until: mode == .automatic ? nil : until))
  }

  /// Calls begin to be rejected if a mode that let them through ends while the breaker is not closed.
  private mutating func noteEnd(of mode: BreakerMode, next: BreakerMode, at now: Int) {
    let letThrough = mode == .observe || mode == .forcedClosed
    if letThrough, next == .automatic, state != .closed { facts.append(.outageBegan(at: now)) }
  }
}

extension NaiveBreaker {
  /// Whether outcomes move the state; valid once a mode that is over has been ended.
  private var isJudging: Bool { [.automatic, .observe].contains(lastMode.mode) }

  /// Applies what time alone does, one thing after the other; a mode ends before a probe does.
  mutating func settle(_ given: Circumstances) {
    settleTurn(given)
    while true {
      let deadline = leases.map { $0.deadline }.min() ?? .max
      let end = lastMode.until ?? .max
      let then = min(deadline, end)
      guard then <= given.now else { break }
      if end == then {
        arrows.append("mode:\(lastMode.mode.wireName)>automatic")
        noteEnd(of: lastMode.mode, next: .automatic, at: end)
        facts.append(.modeSet(.automatic, until: nil))
      } else if let late = leases.first(where: { $0.deadline == deadline }) {
        facts.append(.leaseEnded(late.id))
        arrows.append("probe:probe>timed_out")
        let isJudged = isJudging && late.generation >= generationOfState
        if isJudged, isSuspected, usualProbe == nil {
          arrows.append("suspicion:half_open>closed")
          facts.append(.acquitted(at: then))
          continue
        }
        facts.append(.counted(\.failures))
        let draw = ProbeLease(
          id: late.id, generation: late.generation, owner: late.owner,
          deadline: Instant(nanoseconds: Int64(deadline))
        ).jitter
        let circumstances = Circumstances(now: then, draw: draw, gone: given.gone)
        if isJudged { probeEnded(hasFailed: true, nil, circumstances) }
      }
    }
    for lease in leases where given.gone.contains(lease.owner) {
      let wentFirst = isOfFirst(lease)
      facts.append(.leaseEnded(lease.id))
      if wentFirst { continue }
      arrows.append("probe:probe>lost")
      guard state == .halfOpen, lease.generation >= generationOfState else { continue }
      if policy.lostCalls == .ignored {
        facts.append(.probeLost(began: lease.began, noticed: given.now))
      } else if isJudging {
        let draw = ProbeLease(
          id: lease.id, generation: lease.generation, owner: lease.owner,
          deadline: Instant(nanoseconds: Int64(lease.deadline))
        ).jitter
        probeEnded(
          hasFailed: true, nil, Circumstances(now: lease.began, draw: draw, gone: given.gone))
      }
    }
  }

  private func isHeld(_ permit: PermitGrant) -> Bool {
    leases.contains { $0.id == permit.lease && $0.generation == permit.generation }
  }

  /// When to ask whether a probe has ended: after its usual time, then twice that, up to a second more.
  func nextLook(_ lease: Lease, _ now: Int) -> Int {
    var wait = max(10_000_000, usualProbe ?? 1_000_000_000)
    while lease.began + wait <= now { wait += min(wait, 1_000_000_000) }
    return min(lease.began + wait, lease.deadline)
  }

  /// When to ask for a slot again; nil means that one is free now.
  private func nextSlot(_ now: Int) -> Int? {
    let held = leases
    let own = held.filter { $0.generation >= generationOfState }
    var ends: [Int] = []
    if held.count >= policy.probes {
      // All leases above the limit have to end, and one more.
      ends.append(held.map { nextLook($0, now) }.sorted()[held.count - policy.probes])
    }
    let made = own.count + probeSuccesses + probeFailures
    let areEnough = !own.isEmpty && policy.probeCalls.map { made >= $0 } ?? false
    if state == .halfOpen, let nextProbe, nextProbe > now { ends.append(nextProbe) }
    guard !ends.isEmpty || areEnough else { return nil }
    return (ends + own.map { nextLook($0, now) }).min()
  }

  private func openTime(after trips: Int, _ given: Circumstances) -> Int {
    let share = Double(policy.jitter.partsPerMillion) / 1_000_000
    let varied = Int(Double(plainOpenTime(trips)) * (1 + share * (2 * given.draw - 1)))
    return min(max(1, varied), nanoseconds(policy.openMax ?? .seconds(365 * 86_400)))
  }

  private mutating func open(for named: Int?, isNamed: Bool = false, _ given: Circumstances) {
    let length = named ?? openTime(after: tripsInARow(at: given.now), given)
    endTurns()
    arrows.append("\(isSuspected ? "suspicion:" : "")\(state.wireName)>open")
    if state == .closed || isSuspected, ![.observe, .forcedClosed].contains(lastMode.mode) {
      facts.append(.outageBegan(at: given.now))
    }
    facts.append(
      .opened(
        at: given.now, until: given.now + length, from: isSuspected ? .closed : state,
        isNamed: isNamed || named != nil))
  }

  private func namedTime(_ kind: CallOutcome.Failure.Kind?) -> Int? {
    guard case .opens(let time) = kind else { return nil }
    return max(0, nanoseconds(min(time, policy.openMax ?? .seconds(86_400))))
  }

  private mutating func probeEnded(
    hasFailed: Bool, _ kind: CallOutcome.Failure.Kind?, _ given: Circumstances
  ) {
    facts.append(hasFailed ? .probeFailed : .probeSucceeded)
    let isEnough: Bool
    if let calls = policy.probeCalls, let rate = policy.probeFailureRate {
      // It opens when the rate is certain to be reached, and closes when it cannot be reached.
      let failed = hasFailed ? probeFailures : calls - probeSuccesses
      isEnough = (Int64(failed) * 1_000_000 >= rate.partsPerMillion * Int64(calls)) == hasFailed
    } else {
      isEnough = hasFailed || probeSuccesses >= policy.successesToClose
    }
    if hasFailed {
      let isFinal = kind != nil && kind != .ordinary
      if isEnough || isFinal { open(for: namedTime(kind), given) }
    } else if isEnough {
      arrows.append("\(isSuspected ? "suspicion:" : "")half_open>closed")
      facts.append(isSuspected ? .acquitted(at: given.now) : .closed(at: given.now))
    }
  }

  private mutating func callEnded(
    _ call: Call, _ kind: CallOutcome.Failure.Kind?, _ given: Circumstances
  ) {
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

  private func isReached(_ rate: BreakerPolicy.Rate?, at now: Int, by isBad: (Call) -> Bool) -> Bool
  {
    guard let rate else { return false }
    var window = calls
    if let length = policy.window {
      // Ten buckets, of which the newest is the one that `now` is in.
      let width = nanoseconds(length) / 10
      window.removeAll { $0.call.at / width <= now / width - 10 }
    } else if let last = policy.last {
      // A failure that does not count leaves the window with the call before it.
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

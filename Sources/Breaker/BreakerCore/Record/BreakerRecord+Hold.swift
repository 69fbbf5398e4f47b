/// Holds: the resource works, and has asked to be left alone until an instant.
///
/// Each of the steps requires a record that has been settled at `now`.
extension BreakerRecord {
  /// How many calls in a row may be told to wait for an unnamed time before the breaker holds calls.
  ///
  /// Such an answer often concerns a single request, as that of a balancer which sheds a few.
  static let toleratedUnnamed: Int64 = 2

  /// How often `hold-for` doubles at most.
  static let mostDoublings: Int64 = 6

  /// Takes a request to leave the resource alone.
  ///
  /// The longest wish wins. What a call brings is true whenever it began, unless it began before a reset or before
  /// a hold was ended by hand.
  package mutating func heldBack(
    _ wish: CallOutcome.Hold, by giver: HoldGiver, at now: Moment, policy: BreakerPolicy
  ) -> Step<HoldEffect> {
    guard let time = length(of: wish, by: giver, at: now, policy: policy) else {
      return Step(answer: .none, events: [])
    }
    var cut = min(time, BreakerPolicy.longestDuration.inNanoseconds)
    var isOperators = false
    if case .operator = giver { isOperators = true }
    if !isOperators { cut = min(cut, policy.holdMax.inNanoseconds) }
    // The time counts from when the resource asked, so a hold that is heard again ends when it did before.
    let rest = cut - giver.age
    let left = holds.hold?.remaining(at: now.boot) ?? 0
    guard rest > left else { return Step(answer: .isShorter(than: left), events: []) }
    let isNamed = wish.nanoseconds(at: now) ?? 0 > 0
    // No policy knows a time of more than a year, and that is not the doing of `hold-max`.
    let asked = isNamed && !isOperators && time > cut ? time : nil
    let event = hold(for: cut, asked: asked, wish.reason, by: giver, at: now)
    return Step(answer: .holds(rest), events: event.map { [$0] } ?? [])
  }

  /// How long a wish lasts, in nanoseconds, before `hold-max` cuts it; nil if it holds no call.
  private mutating func length(
    of wish: CallOutcome.Hold, by giver: HoldGiver, at now: Moment, policy: BreakerPolicy
  ) -> Int64? {
    var hasBegunSince = false
    if case .call(let permit, _) = giver, permit.generation != PermitGrant.unjudged {
      guard permit.generation >= holds.least else { return nil }
      hasBegunSince = permit.generation >= holds.number
    }
    if let named = wish.nanoseconds(at: now), named > 0 { return named }
    guard hasBegunSince else { return nil }
    holds.unnamed = holds.unnamed.addingSaturating(1)
    let doublings = holds.unnamed - Self.toleratedUnnamed - 1
    guard doublings >= 0 else { return nil }
    return policy.holdFor.inNanoseconds
      .multipliedSaturating(by: 1 << min(doublings, Self.mostDoublings))
  }

  /// Begins or prolongs a hold; returns the event if the history is to tell it.
  private mutating func hold(
    for length: Int64, asked: Int64?, _ reason: String?, by giver: HoldGiver, at now: Moment
  ) -> BreakerEvent? {
    let setAt = now.at(now.boot.advanced(by: -giver.age))
    let earlier = holds.hold
    let left = earlier?.remaining(at: now.boot) ?? 0
    // While calls are held none begins, so a hold that is only prolonged needs no number of its own.
    if left == 0 {
      generation += 1
      holds.number = generation
    }
    endTurn()
    noRamp()
    var hold = Hold(
      until: setAt.boot.advanced(by: length), lengthNanoseconds: length,
      setAtMilliseconds: setAt.wallMilliseconds, isByHand: giver.isByHand)
    hold.askedNanoseconds = asked
    hold.reason = reason.map { OutsideText.cut($0) }
    hold.setBy = giver.words
    hold.host = giver.elsewhere?.host
    hold.after = giver.elsewhere?.hold.after ?? 0
    if let earlier {
      hold.sinceMilliseconds = earlier.sinceMilliseconds
      hold.extensions = earlier.extensions.addingSaturating(1)
    }
    holds.hold = hold
    let isNews =
      earlier.map {
        (length - giver.age) / 2 >= max(1, left > 0 ? left : $0.lengthNanoseconds)
      } ?? true
    guard isNews else { return nil }
    return BreakerEvent(
      .hold(earlier == nil ? .began : .prolonged), reason: hold.words,
      atMilliseconds: now.wallMilliseconds, origin: hold.host)
  }

  /// Ends a hold by hand, after which no call need go first; answers false if there was none.
  ///
  /// Calls under way bring no hold any more. `byFleet` says that a command of the fleet does it.
  package mutating func holdEnded(
    reason: String?, byFleet: Bool = false, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    let reason = reason.map { OutsideText.cut($0) } ?? "ended by hand"
    guard holds.hold != nil, let event = endHold(because: reason, at: now, policy: policy)
    else { return Step(answer: false, events: []) }
    generation += 1
    holds.least = generation
    noteEnd(byFleet: byFleet, at: now)
    return Step(answer: true, events: [event])
  }

  /// Notes when this host ended holds, which concerns those that it hears of.
  ///
  /// A command of the fleet is remembered with its stamp, which tells exactly what came before it.
  private mutating func noteEnd(byFleet: Bool, at now: Moment) {
    if !byFleet { holds.endedAtMilliseconds = now.wallMilliseconds }
  }

  /// Notes that a call which began after the latest hold has succeeded or failed, which ends the hold and the row
  /// of answers that named no time.
  mutating func noteAnswer(
    _ outcome: CallOutcome, to permit: PermitGrant, at now: Moment, policy: BreakerPolicy
  ) -> BreakerEvent? {
    guard decidesHold(permit, at: now.boot) else { return nil }
    switch outcome {
    case .success:
      return endHold(because: "a call succeeded", at: now, policy: policy)
    case .failure:
      return endHold(because: "a call failed", at: now, policy: policy)
    case .hold, .ignored: return nil
    }
  }

  /// Whether an answer to this permit would end a hold, or a row of answers that named no time.
  func decidesHold(_ permit: PermitGrant, at now: Instant) -> Bool {
    guard holds.hold != nil || holds.unnamed > 0, permit.generation >= holds.number,
      permit.generation != PermitGrant.unjudged
    else { return false }
    return holds.hold?.remaining(at: now) ?? 0 == 0
  }

  private mutating func endHold(
    because reason: String, at now: Moment, policy: BreakerPolicy, headStart: Int64 = 0
  ) -> BreakerEvent? {
    endTurn()
    holds.unnamed = 0
    guard let hold = holds.hold else { return nil }
    holds.hold = nil
    if state == .closed { beginRamp(at: now, policy: policy, headStart: headStart) }
    let lasted = max(0, now.wallMilliseconds.subtractingSaturating(hold.sinceMilliseconds))
    // Milliseconds of a long time are noise.
    let rounded = lasted < 10_000 ? lasted : lasted / 1_000 * 1_000
    var text = "\(reason), after \(DurationText.format(.milliseconds(rounded)))"
    if hold.extensions > 0 { text += ", prolonged \(CountedNoun.text(hold.extensions, "time"))" }
    return BreakerEvent(.hold(.ended), reason: text, atMilliseconds: now.wallMilliseconds)
  }

  /// Ends a hold with a reset: calls under way bring no hold any more.
  mutating func resetHold(byFleet: Bool, at now: Moment) {
    endTurn()
    noteEnd(byFleet: byFleet, at: now)
    holds.hold = nil
    holds.unnamed = 0
    holds.least = generation
  }
}

/// The call that goes first after a hold.
extension BreakerRecord {
  /// The answer that a hold gives to a request; nil if it lets calls through.
  func assessedHold(
    at now: Instant, mode: BreakerMode, isGone: (ProcessIdentity) -> Bool
  ) -> Assessment? {
    guard let hold = holds.hold else { return nil }
    let left = hold.remaining(at: now)
    if left > 0 { return heldAssessment(retryAfter: left, hold, mode: mode) }
    // A half-open breaker has its probes.
    guard state == .closed else { return nil }
    guard let lease = leaseOfFirst, now < lease.deadline, lease.owner.map(isGone) != true else {
      return .undecided
    }
    let look = lease.nextLook(after: now, usually: usualProbeNanoseconds)
    return heldAssessment(retryAfter: look.since(now), hold, mode: mode)
  }

  private func heldAssessment(retryAfter: Int64, _ hold: Hold, mode: BreakerMode) -> Assessment {
    assessedRejection(
      Rejection(
        state: state, mode: mode, retryAfter: .nanoseconds(retryAfter),
        reason: hold.isByHand ? hold.reason : nil, cause: .held))
  }

  /// The lease of the call that goes first; nil if none is under way.
  var leaseOfFirst: ProbeLease? {
    holds.hold?.firstLease.flatMap { id in leases.first { $0.id == id } }
  }

  /// Lets a call go first after a hold: all others wait for what becomes of it.
  ///
  /// That lasts no longer than the hold did, nor than `probe-timeout`: a resource refuses quickly, so a call that
  /// still runs was let in.
  mutating func grantFirst(
    after hold: Hold, at now: Instant, to owner: ProcessIdentity?, policy: BreakerPolicy
  ) -> PermitGrant {
    let longest = min(hold.lengthNanoseconds, policy.probeTimeout.inNanoseconds)
    let deadline = hold.turnUntil ?? now.advanced(by: max(1, longest))
    lastLease += 1
    leases.append(
      ProbeLease(
        id: lastLease, generation: generation, owner: owner, began: now, deadline: deadline))
    holds.hold?.firstLease = lastLease
    holds.hold?.turnUntil = deadline
    return PermitGrant(kind: .probe, generation: generation, lease: lastLease, deadline: deadline)
  }

  /// Whether a permit is that of a call which went first, and the state has not changed since.
  func wentFirst(_ permit: PermitGrant) -> Bool {
    permit.kind == .probe && state == .closed && isOfThisState(permit.generation)
  }

  func isOfFirst(_ lease: ProbeLease) -> Bool { lease.id == holds.hold?.firstLease }

  /// Gives up that calls go first, one at a time.
  mutating func endTurn() {
    if let first = holds.hold?.firstLease { leases.removeAll { $0.id == first } }
    holds.hold?.firstLease = nil
    holds.hold?.turnUntil = nil
  }

  /// Lets all calls go if the time in which they go first one at a time is over.
  mutating func endTurn(by now: Moment, policy: BreakerPolicy) -> [BreakerEvent] {
    guard let until = holds.hold?.turnUntil, now.boot >= until,
      let event = endHold(
        because: "the first call still runs", at: now.at(until), policy: policy, headStart: 1)
    else { return [] }
    return [event]
  }
}

extension Hold {
  /// The hold in words for the history: its reason, how long it lasts, and how long was asked for.
  var words: String {
    let length = DurationText.format(.nanoseconds(lengthNanoseconds))
    var text = reason.map { "\($0): " } ?? ""
    if let askedNanoseconds {
      text += "asked for \(DurationText.format(.nanoseconds(askedNanoseconds))), "
    }
    text += "held for \(length)"
    if askedNanoseconds != nil { text += " by hold-max" }
    if let host { text += ", told by \(host)" }
    return text
  }
}

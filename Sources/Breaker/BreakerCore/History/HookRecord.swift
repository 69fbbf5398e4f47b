/// How far the hook of a name has got, and which process runs it.
package struct HookRecord: Sendable, Hashable {
  /// The latest event that needs no more handling; negative if earlier events may have been lost.
  package var handled: Int64

  /// How often the hook has failed for the next event.
  package var failures: Int64 = 0

  /// Raised whenever a process begins to run the hook, which voids late reports of earlier runs.
  package var claim: Int64 = 0

  /// The process that runs the hook.
  package var owner: ProcessIdentity?

  /// The boot that `until` belongs to.
  package var boot: Int64 = 0

  /// Before this instant no other process begins to run the hook, unless its owner is gone.
  package var until = Instant(nanoseconds: 0)

  /// The value of `handled` if events may have been lost before the first one.
  package static let nothing: Int64 = -1

  package init(handled: Int64) { self.handled = handled }

  /// The record of a hook that has none, which begins with the event after the newest one.
  ///
  /// If a process has seen the record before, it was lost together with events.
  package init(for request: HookRequest, newest: Int64) {
    self.init(handled: request.hasBegun ? Self.nothing : newest)
  }
}

/// A process's report about the event that it ran the hook for.
package struct HookReport: Sendable, Hashable {
  package enum Outcome: Sendable, Hashable { case handled, failed, released }

  package var event: Int64
  package var name: String
  package var claim: HookClaim
  package var outcome: Outcome

  package init(event: Int64, name: String, claim: HookClaim, outcome: Outcome) {
    self.event = event
    self.name = name
    self.claim = claim
    self.outcome = outcome
  }
}

/// The right of one process to run a hook for one event.
package struct HookClaim: Sendable, Hashable {
  /// The lineage of the issuing store; a store that was recreated or restored has another one.
  package var lineage: Int64
  package var number: Int64

  package init(lineage: Int64, number: Int64) {
    self.lineage = lineage
    self.number = number
  }
}

/// A process's report about a hook, and its request for the next event.
package struct HookRequest: Sendable, Hashable {
  package var hook: String

  /// The breaker whose events are of interest; nil for all.
  package var name: String?
  package var process: ProcessIdentity

  /// How long the hook may take for one event.
  package var timeout: Duration

  /// How often the hook is tried for one event.
  package var attempts: Int
  package var report: HookReport?

  /// Whether the process is ready to run the hook for the next event.
  package var mayRun = true

  /// Whether the process has seen the hook's record before; if it is gone now, so are the events.
  package var hasBegun = false

  package init(
    hook: String, name: String?, process: ProcessIdentity, timeout: Duration, attempts: Int
  ) {
    self.hook = hook
    self.name = name
    self.process = process
    self.timeout = timeout
    self.attempts = attempts
  }
}

/// The next action of a process that watches a hook.
package enum HookTurn: Sendable, Hashable {
  case run(RecordedEvent, isAfterGap: Bool, claim: HookClaim)

  /// The hook has failed too often for an event, which is skipped.
  case gaveUp(event: Int64, name: String)

  /// Another process is running the hook, or the hook is pausing after a failure.
  case wait(nanoseconds: Int64)

  /// There is no event to run the hook for.
  case idle

  /// The breaker whose event the turn is about.
  package var breaker: String? {
    switch self {
    case .run(let event, _, _): event.name
    case .gaveUp(_, let name): name
    case .wait, .idle: nil
    }
  }
}

extension HookRecord {
  /// Applies what a process reports, and answers what the process has to do.
  ///
  /// - Parameters:
  ///   - request: The report and the request of the process.
  ///   - now: The time on the boot clock.
  ///   - boot: The boot that `now` belongs to.
  ///   - lineage: The lineage of the store that holds the record.
  ///   - isGone: Whether a process has certainly ended, and so no longer runs the hook.
  ///   - next: Finds the first event of interest after another one.
  /// - Returns: The next action of the process.
  /// - Throws: The error of `next`.
  package mutating func answer<Failure: Error>(
    _ request: HookRequest, at now: Instant, boot: Int64, lineage: Int64,
    isGone: (ProcessIdentity) -> Bool, next: (Int64) throws(Failure) -> RecordedEvent?
  ) throws(Failure) -> HookTurn {
    if self.boot != boot || until.isFalseDeadline(at: now) {
      // No process that ran the hook before the reboot is running it now, and a deadline from a
      // false clock is worth nothing.
      until = now
      self.boot = boot
    }
    if let report = request.report, owner != nil,
      report.claim == HookClaim(lineage: lineage, number: claim)
    {
      if let gaveUp = runEnded(with: report, attempts: request.attempts, at: now) { return gaveUp }
    }
    guard request.mayRun, let event = try next(handled) else { return .idle }
    let isAbandoned = owner.map(isGone) ?? false
    if !isAbandoned, now < until { return .wait(nanoseconds: until.since(now)) }
    if owner != nil {
      // A hook that kills its process must not kill one process after another.
      owner = nil
      failures += 1
      if failures >= request.attempts { return giveUp(event.id, event.name) }
    }
    claim += 1
    owner = request.process
    until = now.advanced(by: request.timeout.inNanoseconds)
    return .run(
      event, isAfterGap: event.isAfterGap(since: handled, of: request.name),
      claim: HookClaim(lineage: lineage, number: claim))
  }

  private mutating func runEnded(
    with report: HookReport, attempts: Int, at now: Instant
  ) -> HookTurn? {
    owner = nil
    until = now
    switch report.outcome {
    case .released: break
    case .handled:
      handled = report.event
      failures = 0
    case .failed:
      failures += 1
      if failures >= attempts { return giveUp(report.event, report.name) }
      until = now.advanced(by: Self.pause << min(failures - 1, 5))
    }
    return nil
  }

  /// How long a failed hook pauses, in nanoseconds; doubled with each failure, up to 32 times.
  private static let pause: Int64 = 1_000_000_000

  private mutating func giveUp(_ event: Int64, _ name: String) -> HookTurn {
    handled = event
    failures = 0
    return .gaveUp(event: event, name: name)
  }
}

/// Finds what must not have happened in a phase.
struct Referee {
  let evidence: Evidence

  /// The certain times of each breaker's changes; none if its history is not complete.
  let timelines: [String: StateTimeline]
  let modes: [String: StateTimeline]

  /// The number of answers that were compared with a certain state.
  private(set) var answersCompared = 0

  init(_ evidence: Evidence) {
    self.evidence = evidence
    timelines = Self.timelines(evidence, areModes: false, beginning: "closed")
    modes = Self.timelines(evidence, areModes: true, beginning: "automatic")
  }

  private static func timelines(
    _ evidence: Evidence, areModes: Bool, beginning: String
  ) -> [String: StateTimeline] {
    let claims = Claims.all(evidence, areModes: areModes)
    var timelines: [String: StateTimeline] = [:]
    for (breaker, row) in evidence.rows where evidence.isContinuous && !row.isTrimmed {
      let events = evidence.events(of: breaker, areModes: areModes)
      var steps: [StateTimeline.Step] = []
      for (pid, own) in Dictionary(grouping: events, by: \.pid) {
        steps += (claims[breaker]?[pid] ?? Claims()).steps(of: own)
      }
      timelines[breaker] = StateTimeline(
        steps.sorted { $0.event.id < $1.event.id }, beginning: beginning)
    }
    return timelines
  }

  /// Returns all violations.
  mutating func violations() -> [Violation] {
    var found = chain() + exitCodes() + probesAtOnce() + lateReports()
    if evidence.isContinuous {
      found += makers(areModes: false) + makers(areModes: true) + rows() + accounts()
    }
    return found + answers()
  }

  /// Checks that each change begins with the state that the one before it ended with.
  private func chain() -> [Violation] {
    var found: [Violation] = []
    let events = evidence.events.filter { !$0.isMode }
    for (breaker, events) in Dictionary(grouping: events, by: \.breaker) {
      var state = evidence.rows[breaker]?.isTrimmed == true ? events[0].from : "closed"
      for event in events {
        if event.isDeletion {
          state = "closed"
          continue
        }
        if event.from != state {
          found.append(
            Violation(.brokenChain, "\(breaker): \(event.text) follows on the state \(state)"))
        }
        state = event.to
      }
      if let row = evidence.rows[breaker], row.state != state {
        found.append(
          Violation(.wrongRow, "\(breaker) is \(row.state), and its history ends with \(state)"))
      }
    }
    return found
  }

  /// Checks that each change was made by one call of one process.
  private func makers(areModes: Bool) -> [Violation] {
    var found: [Violation] = []
    let all = Claims.all(evidence, areModes: areModes)
    for (breaker, row) in evidence.rows where !row.isTrimmed {
      let events = Dictionary(
        grouping: evidence.events(of: breaker, areModes: areModes), by: \.pid)
      let claims = all[breaker] ?? [:]
      for pid in Set(events.keys).union(claims.keys) {
        found += (claims[pid] ?? Claims()).violations(
          of: events[pid] ?? [], by: pid, on: breaker)
      }
    }
    return found
  }

  /// Checks that the rows agree with the history.
  private func rows() -> [Violation] {
    var found: [Violation] = []
    for (breaker, row) in evidence.rows where !row.isTrimmed {
      let events = evidence.events(of: breaker, areModes: false)
      let trips = Int64(events.count { !$0.isReset && !$0.isExtension && $0.to == "open" })
      let generation = 1 + Int64(events.count { $0.isReset || $0.from != $0.to })
      if row.trips != trips {
        found.append(
          Violation(.wrongRow, "\(breaker) has \(row.trips) trips, its history \(trips)"))
      }
      if row.generation != generation {
        found.append(
          Violation(
            .wrongRow, "\(breaker) is in generation \(row.generation), its history \(generation)"))
      }
    }
    return found
  }
}

extension Referee {
  /// Checks that no answer contradicts a change that the caller should have seen.
  private mutating func answers() -> [Violation] {
    var found: [Violation] = []
    for journal in evidence.journals {
      for call in journal.calls.values where call.isAcknowledged {
        guard let ended = call.ended, let timeline = timelines[call.breaker],
          let answer = Answer(call),
          let mode = modes[call.breaker]?.state(from: call.began.real, to: ended.real)
        else { continue }
        // While calls are forced, the mode answers.
        let isForced = mode.hasPrefix("forced")
        guard let state = isForced ? mode : timeline.state(from: call.began.real, to: ended.real)
        else { continue }
        answersCompared += 1
        guard !answer.fits(state), mode != "observe" || answer == .rejected else { continue }
        found.append(
          Violation(
            .staleAnswer,
            "\(call.breaker) was \(state) (\(mode)) from \(call.began.real) to \(ended.real), but process"
              + " \(call.pid ?? 0) got '\(call.answer)' for \(call.action.rawValue)"))
      }
    }
    return found
  }
}

/// The answer that a caller got.
private enum Answer {
  case normal
  case probe
  case permitted
  case rejected

  init?(_ call: Call) {
    switch (call.action, call.answer) {
    case (.acquire, "normal"): self = .normal
    case (.acquire, "probe"): self = .probe
    case (.acquire, "rejected"), (.check, "exit75"), (.run, "exit75"): self = .rejected
    case (.run, "exit0"), (.run, "exit1"), (.run, "exit7"): self = .permitted
    case (.batch, let counts), (.failures, let counts):
      let parts = counts.split(separator: "/").compactMap { Int($0) }
      guard parts.count == 2 else { return nil }
      // A batch that was permitted in part has no single state to compare with.
      guard parts.contains(0) else { return nil }
      self = parts[1] == 0 ? .permitted : .rejected
    default: return nil
    }
  }

  /// Whether the answer is possible in a state that held during the whole call.
  ///
  /// A call that changes the state is never in one state all the time.
  func fits(_ state: String) -> Bool {
    switch (self, state) {
    case (.normal, "closed"), (.permitted, "closed"): true
    case (.probe, "half_open"), (.permitted, "half_open"), (.rejected, "half_open"): true
    case (.rejected, "open"), (.rejected, "forced_open"): true
    case (.normal, "forced_closed"), (.permitted, "forced_closed"): true
    default: false
    }
  }
}

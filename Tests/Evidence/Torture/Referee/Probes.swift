/// A time in which a process surely held a probe.
struct Hold {
  var from: Int64
  var to: Int64
  var pid: Int32
}

extension Referee {
  /// The reports of a journal's permits, by the number of the call that got the permit.
  private func reports(of journal: Journal) -> [Int: Call] {
    var reports: [Int: Call] = [:]
    for call in journal.calls.values where call.action == .report {
      guard let permit = call.detail.split(separator: "/").last.flatMap({ Int($0) }) else {
        continue
      }
      reports[permit] = call
    }
    return reports
  }

  /// The times in which probes were surely under way.
  ///
  /// A probe ends when its report begins, when its process was last alive, or at its deadline,
  /// whichever is first. No change of the breaker ends it.
  func holds(on breaker: String) -> [Hold] {
    guard timelines[breaker] != nil else { return [] }
    var holds: [Hold] = []
    for journal in evidence.journals {
      let reports = reports(of: journal)
      for (id, call) in journal.calls where call.breaker == breaker && call.isProbe {
        guard let given = call.ended else { continue }
        let end = min(
          reports[id]?.began.real ?? .max, journal.alive,
          evidence.realTime(ofStore: call.began.store + evidence.probeTimeout))
        if given.real < end { holds.append(Hold(from: given.real, to: end, pid: journal.pid)) }
      }
    }
    return holds.sorted { $0.from < $1.from }
  }

  /// Checks that there are never more probes at a time than the policy permits.
  func probesAtOnce() -> [Violation] {
    var found: [Violation] = []
    for breaker in timelines.keys.sorted() {
      var current: [Hold] = []
      for hold in holds(on: breaker) {
        current.removeAll { $0.to <= hold.from }
        current.append(hold)
        guard current.count > evidence.probes else { continue }
        let pids = current.map { String($0.pid) }.joined(separator: ", ")
        found.append(
          Violation(
            .tooManyProbes,
            "\(breaker): \(current.count) probes at \(hold.from), by processes \(pids)"))
      }
    }
    return found
  }

  /// The number of probes that were held for a certain time.
  var probesHeld: Int { timelines.keys.reduce(0) { $0 + holds(on: $1).count } }

  /// Checks that the report of a probe that took too long is refused.
  func lateReports() -> [Violation] {
    guard evidence.isContinuous else { return [] }
    var found: [Violation] = []
    for journal in evidence.journals {
      for (id, report) in reports(of: journal) where report.isAcknowledged {
        guard let permit = journal.calls[id], permit.isProbe, let given = permit.ended,
          report.began.store >= given.store + evidence.probeTimeout,
          ["counted", "outdated", "exit0"].contains(report.answer)
        else { continue }
        found.append(
          Violation(
            .lateReport,
            "\(report.breaker): process \(report.pid ?? 0) reported a probe of \(given.real) at"
              + " \(report.began.real), too late, and it was \(report.answer)"))
      }
    }
    return found
  }
}

extension Call {
  fileprivate var isProbe: Bool { action == .acquire && answer == "probe" && isByStore }
}

/// The acknowledged count, and the count that may have been added to it.
private struct Account {
  var sure: Int64 = 0
  var possible: Int64 = 0

  mutating func add(_ count: Int64, isSure: Bool) {
    if isSure { sure += count } else { possible += count }
  }

  func holds(_ counted: Int64) -> Bool { (sure...(sure + possible)).contains(counted) }
}

extension Referee {
  /// Checks that no acknowledged outcome is lost and that none was counted without a report.
  func accounts() -> [Violation] {
    var failures: [String: Account] = [:]
    var successes: [String: Account] = [:]
    for call in evidence.journals.flatMap(\.calls.values) {
      let outcome = call.detail.prefix { $0 != "/" }
      switch call.action {
      case .report where call.wasTaken != false:
        let isSure = call.wasTaken == true
        if outcome == "failure" {
          failures[call.breaker, default: .init()].add(1, isSure: isSure)
        } else if outcome.hasPrefix("success") {
          successes[call.breaker, default: .init()].add(1, isSure: isSure)
        }
      case .run where call.answer != "exit75":
        let isSure = call.isAcknowledged && !["killed", "exit69"].contains(call.answer)
        if call.detail == "true" {
          successes[call.breaker, default: .init()].add(1, isSure: isSure)
        } else {
          failures[call.breaker, default: .init()].add(1, isSure: isSure)
        }
      case .batch:
        // If a call was a probe and took too long, its outcome was refused without it knowing.
        let isSure = call.isAcknowledged && !call.hasTaken(evidence.probeTimeout)
        successes[call.breaker, default: .init()].add(call.count, isSure: isSure)
      case .failures:
        let isSure = call.isAcknowledged && !call.hasTaken(evidence.probeTimeout)
        failures[call.breaker, default: .init()].add(call.count, isSure: isSure)
      default: break
      }
    }
    for (breaker, row) in evidence.rows {
      // A probe that passed its deadline has failed, and its report is refused.
      failures[breaker, default: .init()].add(row.timeouts, isSure: true)
      if row.isTrimmed { failures[breaker, default: .init()].add(.max / 4, isSure: false) }
    }
    var found: [Violation] = []
    for (breaker, row) in evidence.rows {
      found += judge(row.failures, failures[breaker], "failures", .lostFailure, .inventedFailure)
        .map { Violation($0.kind, "\(breaker): \($0.text)") }
      guard evidence.keepsCounters else { continue }
      found += judge(row.successes, successes[breaker], "successes", .lostSuccess, .inventedSuccess)
        .map { Violation($0.kind, "\(breaker): \($0.text)") }
    }
    return found
  }

  private func judge(
    _ counted: Int64, _ account: Account?, _ what: String, _ lost: Violation.Kind,
    _ invented: Violation.Kind
  ) -> [Violation] {
    let account = account ?? Account()
    guard !account.holds(counted) else { return [] }
    return [
      Violation(
        counted < account.sure ? lost : invented,
        "\(counted) \(what), but \(account.sure) were acknowledged and \(account.possible) more"
          + " possible")
    ]
  }

  /// The number of failures that the store has acknowledged.
  var failuresAcknowledged: Int {
    evidence.journals.flatMap(\.calls.values).reduce(0) { sum, call in
      switch call.action {
      case .report where call.detail.hasPrefix("failure") && call.wasTaken == true: sum + 1
      case .run where call.isAcknowledged && ["exit1", "exit7"].contains(call.answer): sum + 1
      case .failures where call.isAcknowledged: sum + Int(call.count)
      default: sum
      }
    }
  }
}

extension Call {
  /// Whether the call has taken a time or longer, on the clock of the store.
  fileprivate func hasTaken(_ time: Int64) -> Bool {
    ended.map { $0.store - began.store >= time } ?? true
  }

  /// How many calls of a batch were permitted; all that it planned if it has not ended.
  fileprivate var count: Int64 {
    let went = answer.split(separator: "/").first.flatMap { Int64($0) }
    return went ?? Int64(detail) ?? 0
  }

  /// Whether a report was accepted; nil if that is not known.
  fileprivate var wasTaken: Bool? {
    guard isAcknowledged else { return nil }
    switch answer {
    case "counted", "outdated", "exit0": return true
    case "refused", "exit1", "exit66": return false
    default: return nil
    }
  }
}

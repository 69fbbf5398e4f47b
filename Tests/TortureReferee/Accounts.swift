/// What was acknowledged, and what may have been counted besides.
private struct Account {
  var sure: Int64 = 0
  var possible: Int64 = 0

  mutating func add(_ count: Int64, isSure: Bool) {
    if isSure { sure += count } else { possible += count }
  }

  func holds(_ counted: Int64) -> Bool { (sure...(sure + possible)).contains(counted) }
}

extension Referee {
  /// No acknowledged outcome is lost, and none is there that nobody has reported.
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
        let went = call.answer.split(separator: "/").first.flatMap { Int64($0) }
        let count = went ?? Int64(call.detail) ?? 0
        successes[call.breaker, default: .init()].add(count, isSure: call.isAcknowledged)
      default: break
      }
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

  /// How many failures the store has acknowledged.
  package var failuresAcknowledged: Int {
    evidence.journals.flatMap(\.calls.values).count {
      $0.action == .report && $0.detail.hasPrefix("failure") && $0.wasTaken == true
        || $0.action == .run && $0.isAcknowledged && ["exit1", "exit7"].contains($0.answer)
    }
  }
}

extension Call {
  /// Whether a report was taken; nil if that is not known.
  fileprivate var wasTaken: Bool? {
    guard isAcknowledged else { return nil }
    switch answer {
    case "counted", "outdated", "exit0": return true
    case "refused", "exit1", "exit66": return false
    default: return nil
    }
  }
}

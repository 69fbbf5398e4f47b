extension Referee {
  /// How long a command waits for the store, in nanoseconds.
  private static let lockTimeout: Int64 = 500_000_000

  /// Checks that each command ends with a documented exit code that fits what happened.
  func exitCodes() -> [Violation] {
    evidence.journals.flatMap { journal in
      journal.calls.values.filter { $0.pid != journal.pid && $0.ended != nil }
    }.compactMap { call in
      guard !allowed(for: call).contains(call.answer) else { return nil }
      let kind: Violation.Kind = call.answer.hasPrefix("signal") ? .death : .exitCode
      return Violation(
        kind,
        "\(call.action.rawValue) \(call.breaker) \(call.detail) of process \(call.pid ?? 0)"
          + " at \(call.began.real) ended with \(call.answer)")
    }
  }

  private func allowed(for call: Call) -> Set<String> {
    if call.detail == "usage" { return ["exit64", "killed"] }
    var allowed: Set<String> = ["killed"]
    // On a busy machine, others can hold the store for longer than a command waits for it.
    let hasWaited = call.ended.map { $0.real - call.began.real >= Self.lockTimeout } ?? false
    if evidence.mayBeUnavailable || hasWaited, call.action != .run { allowed.insert("exit69") }
    let mayBeGone = !evidence.isContinuous || evidence.isColdStart
    if mayBeGone, ![.run, .acquire].contains(call.action) { allowed.insert("exit66") }
    switch call.action {
    case .run:
      let own = ["true": "exit0", "false": "exit1", "exit7": "exit7"][call.detail] ?? "none"
      allowed.formUnion([own, "exit75"])
    case .acquire: allowed.formUnion(["normal", "probe", "rejected"])
    case .check where call.detail == "unknown": allowed.insert("exit66")
    case .check: allowed.formUnion(["exit0", "exit75"])
    case .report: allowed.formUnion(["exit0", "exit1"])
    case .trip, .reset, .force, .look, .batch, .failures: allowed.insert("exit0")
    }
    return allowed
  }
}

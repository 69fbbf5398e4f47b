import SharedBreaker

extension BreakerDetails {
  /// The page of `show`.
  func page(at now: Timestamp, painter: Painter) -> String {
    var lines = [StateLine.text(of: snapshot)]
    lines += facts(at: now).map { "  \($0)" }
    lines += ["", painter.paint("Policy", .faint)]
    lines += PolicyTable.render(snapshot).map { "  \($0)" }
    lines += drift.map { "  \($0)" }
    if !snapshot.leases.isEmpty {
      lines += ["", painter.paint("Probes under way", .faint)]
      lines += snapshot.leases.map { "  \(Self.words(of: $0))" }
    }
    lines += ["", painter.paint("History", .faint)]
    let entries = HistoryLines.render(history, hasNames: false)
    lines += entries.isEmpty ? ["  nothing yet"] : entries.map { "  \($0)" }
    return lines.map { $0 + "\n" }.joined()
  }

  private static let labelWidth = 14

  private func facts(at now: Timestamp) -> [String] {
    var facts: [(String, String)] = []
    func add(_ label: String, _ time: Timestamp?) {
      if let time { facts.append((label, "\(time) (\(Age.text(of: time, at: now)))")) }
    }
    if snapshot.mode != .automatic, let author = snapshot.modeSetBy {
      facts.append(("mode set by", VisibleText.bare(author)))
    }
    add("created", snapshot.createdAt)
    add("changed", snapshot.changedAt)
    if snapshot.state != .closed { add("opened", snapshot.openedAt) }
    facts.append(("trips", "\(snapshot.trips) (generation \(snapshot.generation))"))
    facts.append(("failures", "\(snapshot.consecutiveFailures) in a row"))
    if snapshot.policy.failureRate != nil || snapshot.policy.slowRate != nil {
      facts.append(("window", window))
    }
    let room = HelpPage.width - 2 - Self.labelWidth
    for (index, line) in HelpPage.wrap(totals, room).enumerated() {
      facts.append((index == 0 ? "totals" : "", line))
    }
    add("last failure", snapshot.lastFailureAt)
    if let error = snapshot.lastError { facts.append(("last error", VisibleText.bare(error))) }
    return facts.map { label, text in
      label + String(repeating: " ", count: Self.labelWidth - label.count) + text
    }
  }

  private var window: String {
    let rate = snapshot.failureRate.map { " (\(RateWords.format($0)))" } ?? ""
    return "\(StateLine.counted(snapshot.windowCalls, "call")), \(snapshot.windowFailures) failed"
      + "\(rate), \(snapshot.windowSlow) slow"
  }

  private var totals: String {
    let totals = snapshot.totals
    let counts = [
      (totals.successes, "succeeded"), (totals.failures, "failed"), (totals.ignored, "ignored"),
      (totals.rejections, "rejected"), (totals.slow, "slow"),
      (totals.wouldReject, "would be rejected"),
    ]
    let words = counts.filter { $0.0 > 0 }.map { "\($0) \($1)" }
    return words.isEmpty ? "no calls yet" : words.joined(separator: ", ")
  }

  /// What callers declare that differs from what was declared last.
  private var drift: [String] {
    func words(_ declaration: PolicyDeclaration) -> String {
      "\(declaration.words) by \(VisibleText.bare(declaration.program)) (pid \(declaration.pid))"
    }
    let ruling = declarations.first { $0.isInForce }
    return declarations.filter { !$0.isInForce && $0.text != ruling?.text }.map { other in
      let last = ruling.map { "; declared last: \(words($0))" } ?? ""
      return "declared differently: \(words(other))\(last)"
    }
  }

  private static func words(of lease: LeaseSnapshot) -> String {
    let owner = lease.ownerPid.map { "pid \($0)" } ?? "no owner"
    if lease.isOwnerGone { return "\(owner), gone" }
    // The next caller counts it as failed; until then it stands in the store.
    if lease.endsIn <= .zero { return "\(owner), has taken too long" }
    return "\(owner), ends in \(SpokenDuration.format(lease.endsIn))"
  }
}

/// A policy, one aligned line a word, with the source of each value.
enum PolicyTable {
  static func render(_ snapshot: BreakerSnapshot) -> [String] {
    let rows = PolicyKey.allCases.compactMap { key in
      snapshot.policy.text(for: key).map { (key, $0) }
    }
    let labelWidth = rows.map { $0.0.rawValue.count }.max() ?? 0
    let valueWidth = rows.map { $0.1.count }.max() ?? 0
    return rows.map { key, text in
      key.rawValue + String(repeating: " ", count: labelWidth - key.rawValue.count + 2)
        + text + String(repeating: " ", count: valueWidth - text.count + 2)
        + snapshot.source(of: key).wireName
    }
  }
}

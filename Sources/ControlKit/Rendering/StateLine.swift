import SharedBreaker

/// The state of a breaker in one line, as commands print it after every change.
enum StateLine {
  static func text(of snapshot: BreakerSnapshot) -> String {
    "\(VisibleText.name(snapshot.name)): \(words(of: snapshot))"
  }

  static func words(of snapshot: BreakerSnapshot) -> String {
    guard let mode = mode(of: snapshot) else { return state(of: snapshot) }
    return "\(mode); state: \(state(of: snapshot))"
  }

  private static func state(of snapshot: BreakerSnapshot) -> String {
    var parts = [snapshot.state.wireName]
    if snapshot.isNextCallProbe {
      parts.append("the next call is a probe")
    } else if let wait = snapshot.mode == .automatic ? snapshot.retryAfter : snapshot.openEndsIn,
      wait > .zero
    {
      parts.append("retry in \(SpokenDuration.format(wait))")
    }
    if snapshot.state == .closed, snapshot.consecutiveFailures > 0 {
      parts.append(CountedNoun.text(snapshot.consecutiveFailures, "consecutive failure"))
    }
    return parts.joined(separator: ", ")
  }

  /// The mode that an operator has set, until when, and why.
  private static func mode(of snapshot: BreakerSnapshot) -> String? {
    guard snapshot.mode != .automatic else { return nil }
    let end = snapshot.modeEndsIn.map { " for \(SpokenDuration.format($0))" } ?? ""
    let reason = snapshot.modeReason.map { " (\(VisibleText.bare($0)))" } ?? ""
    return snapshot.mode.wireName + end + reason
  }
}

extension BreakerSnapshot {
  /// The number of probes that hold a slot.
  var probesUnderWay: Int64 { Int64(leases.count { !$0.isOwnerGone }) }

  /// Whether the next call finds out if the resource is back.
  var isNextCallProbe: Bool {
    isProbeDue || (state == .halfOpen && mode == .automatic && permits)
  }
}

/// Judges what the hosts of a fleet did to each other.
struct FleetReferee {
  private let evidence: FleetEvidence
  private let commands: [String: FleetEvidence.Command]
  private var violations: [Violation] = []

  private init(_ evidence: FleetEvidence) {
    self.evidence = evidence
    commands = Dictionary(
      evidence.commands.map { ($0.text, $0) }, uniquingKeysWith: { first, _ in first })
  }

  static func judge(_ evidence: FleetEvidence) -> [Violation] {
    var referee = FleetReferee(evidence)
    for host in evidence.hosts { referee.judge(host) }
    referee.judgeAgreement()
    referee.judgeForgeries()
    referee.judgeConfirmations()
    return referee.violations
  }

  private mutating func complain(_ kind: Violation.Kind, _ text: String) {
    violations.append(Violation(kind, text))
  }

  private mutating func judge(_ host: FleetEvidence.Host) {
    if host.integrity != "ok" { complain(.damage, "\(host.name): \(host.integrity)") }
    if host.waiting > 0 { complain(.stuck, "\(host.name): \(host.waiting) commands wait") }
    judgeCommands(of: host)
    for event in host.events { judge(event, of: host) }
  }
}

/// Commands.
extension FleetReferee {
  /// Each command has its effect once: at once on its own host, and on others unless a later one came.
  private mutating func judgeCommands(of host: FleetEvidence.Host) {
    var counts: [String: Int] = [:]
    for event in host.events where event.kind == .command || commands[event.reason] != nil {
      counts[event.reason, default: 0] += 1
      guard let command = commands[event.reason] else {
        complain(.inventedEffect, "\(host.name): nobody gave '\(event.reason)'")
        continue
      }
      let origin = command.host == host.name ? nil : command.host
      if event.origin != origin {
        complain(.wrongRow, "\(host.name): \(command.text) is said to be of \(event.origin ?? "-")")
      }
    }
    for command in evidence.commands {
      let count = counts[command.text, default: 0]
      if count > 1 { complain(.doubleEvent, "\(host.name): \(command.text) \(count) times") }
      switch command.ending {
      case .refused where count > 0:
        complain(.inventedEffect, "\(host.name): \(command.text), which was refused")
      case .done where count == 0 && command.host == host.name:
        complain(.lostEvent, "\(host.name): \(command.text), which was acknowledged")
      case .done, .refused, .unknown: break
      }
    }
  }

  private mutating func judgeAgreement() {
    guard let first = evidence.hosts.first else { return }
    for host in evidence.hosts.dropFirst() {
      for (what, left, right) in [
        ("registers", first.registers, host.registers), ("breakers", first.standing, host.standing),
      ] where left != right {
        let text = left.symmetricDifference(right).sorted().joined(separator: "; ")
        complain(.disagreement, "\(what) of \(first.name) and \(host.name): \(text)")
      }
    }
  }
}

/// The statements about other hosts.
extension FleetReferee {
  /// A forger without a key commands no host; a command's effect in the history is judged with it.
  private mutating func judgeForgeries() {
    for host in evidence.hosts {
      let forged = host.registers.union(host.standing).filter { text in
        evidence.forgeries.contains { text.contains($0) }
      }
      for text in forged.sorted() { complain(.inventedEffect, "\(host.name): \(text)") }
    }
  }

  private mutating func judgeConfirmations() {
    for one in evidence.confirmations where !one.isTrue {
      complain(
        .falseConfirmation,
        "\(one.listener) says that \(one.host) follows \(one.command), which it does not")
    }
  }
}

/// Openings.
extension FleetReferee {
  /// Whether outcomes of calls give this reason when they open a breaker of the fleet's plan.
  private static func isOutcome(_ reason: String) -> Bool {
    reason.hasSuffix(" consecutive failures") || reason.hasPrefix("the probe ")
  }

  /// Only outcomes of a host's own calls open its breaker, or a command.
  private mutating func judge(_ event: FleetEvidence.Event, of host: FleetEvidence.Host) {
    let isCommand = commands[event.reason] != nil
    switch event.kind {
    case .opened, .reopened:
      let isOwn = event.origin == nil && Self.isOutcome(event.reason)
      if !isOwn && !isCommand {
        let words = "\(host.name) opened \(event.name): \(event.reason)"
        complain(.openedByOthers, "\(words), by \(event.origin ?? "-")")
      }
    case .suspected: judge(suspicion: event, of: host)
    case .extended, .command, .other: break
    }
  }

  /// A host suspects only what a quorum of others had open by themselves.
  private mutating func judge(suspicion event: FleetEvidence.Event, of host: FleetEvidence.Host) {
    let others = evidence.hosts.count { other in
      other.name != host.name
        && other.events.contains { opening in
          opening.isOwnOpening && opening.name == event.name
            && (event.at - evidence.longestOpening...event.at + 100).contains(opening.at)
        }
    }
    if others < evidence.quorum {
      complain(
        .openedByOthers,
        "\(host.name) at \(event.at): \(event.name) is \(event.reason), but \(others) had it open")
    }
  }
}

import SharedBreaker

extension OptionSpec {
  /// The words of a policy as options, which are the same in `policy --set`, JSON and the store.
  static let policyWords = PolicyKey.allCases.map { key in
    OptionSpec(name: key.rawValue, kind: .policy(key), summary: key.summary)
  }

  /// All options that declare a policy.
  static let policy =
    [
      OptionSpec(
        name: "preset", kind: .choice(BreakerPolicy.presets.map(\.name)),
        summary: "start with the library's policy for a kind of resource")
    ] + policyWords
}

extension BreakerPolicy {
  /// The policies of the library for kinds of resources, as the command line names them.
  fileprivate static let presets: [(name: String, policy: BreakerPolicy)] = [
    ("http", .http), ("database", .database), ("local-service", .localService),
    ("device", .device), ("scheduled-job", .scheduledJob),
  ]
}

extension PolicyKey {
  /// The meaning of the word, for help and the manual.
  var summary: String {
    switch self {
    case .maxFailures: "open after N consecutive failures (5 if no condition is set)"
    case .failures: "open after N failures in the time that within says"
    case .within: "the time in which failures are counted"
    case .failureRate: "open when this share of the calls has failed, such as 50%"
    case .window: "take rates over the calls of the last D"
    case .last: "take rates over the last N calls"
    case .minCalls: "judge rates only over at least N calls (10)"
    case .slowRate: "open when this share of the calls was slow"
    case .slowAfter: "a call is slow if it took at least D"
    case .reporters: "open only if N processes have reported failures (1)"
    case .lumping: "count failures less than D apart as one"
    case .openFor: "stay open for D (30s)"
    case .openMultiplier: "stay open X times longer with each trip in a row (1)"
    case .openMax: "never stay open for longer than D"
    case .jitter: "vary the open time by up to this share either way (0%)"
    case .holdFor:
      "hold calls for D if the resource asks for it without naming a time, three times in a row (1s)"
    case .holdMax: "never hold calls for longer than D because of an answer (1d)"
    case .rampUp:
      "for D after a close or a hold, permit only as many calls at once as have succeeded since, and one"
    case .probes: "permit N probes at a time on the whole host (1)"
    case .successesToClose: "close after N successful probes (1)"
    case .probeTimeout: "a probe fails if it takes longer than D (30s)"
    case .probeCalls: "judge probes together, after N of them"
    case .probeFailureRate: "open again when this share of the probes has failed"
    case .fleetQuorum: "probe when N other hosts, or this share of them, have it open"
    case .fleetSpread: "become due within D when a probe succeeds on another host"
    case .fleetHold:
      "tell other hosts how long to hold calls, and hear it from them: yes or no (no)"
    case .maxConcurrent: "permit calls only while at most N units are under way on the host"
    case .reserve: "keep N of these units from background calls"
    case .queue: "let N callers wait for their turn (1024 with queue-timeout)"
    case .queueTimeout:
      "let a caller wait for at most D: for room, the end of a hold, in a ramp, or under a rate"
    case .rate: "permit at most N calls to begin in any time of D on the host, such as 500/1m"
    case .retryBudget:
      "send at most this share of the first attempts of 10 s again, and 10 a second in any case"
    case .lostCalls: "what calls are whose process ended: failure or ignored (ignored)"
    @unknown default: "a word that this cbctl does not know"
    }
  }
}

extension BreakerPolicy {
  /// The policy that the options of a command line describe, or nil if there are no such options.
  ///
  /// Single words take precedence over a preset.
  ///
  /// - Throws: A usage error if the options contradict each other.
  static func given(by parsed: ParsedCommand) throws(ControlError) -> BreakerPolicy? {
    let preset = presets.first { $0.name == parsed.text("preset") }
    var policy = preset?.policy ?? BreakerPolicy()
    var isGiven = preset != nil
    do {
      for key in PolicyKey.allCases {
        guard let text = parsed.text(key.rawValue) else { continue }
        try policy.set(key, to: text)
        isGiven = true
      }
      if isGiven { try policy.validate() }
    } catch {
      throw .usage("wrong policy", error.description, help: parsed.spec.name)
    }
    return isGiven ? policy : nil
  }
}

extension CommandContext {
  /// The breaker that a command names, with the policy that its options declare, if any.
  func declaredBreaker(
    _ parsed: ParsedCommand, onStoreFailure: StoreFailureAction
  ) throws(ControlError) -> Breaker {
    let name = parsed.text("NAME") ?? ""
    let policy = try BreakerPolicy.given(by: parsed)
    let known = try act { () throws(BreakerError) in
      try store.breaker(name, onStoreFailure: onStoreFailure)
    }
    guard let policy else { return known }
    // This notices a store that cannot be used, so that the following steps do not wait for it again.
    _ = known.snapshot()
    let before = declarationInForce(of: name)
    let breaker = try act { () throws(BreakerError) in
      try store.breaker(name, policy: policy, onStoreFailure: onStoreFailure)
    }
    if let before, let now = declarationInForce(of: name), now.text != before.text {
      let difference = PolicyDifference(from: before.text, to: now.text).text()
      note(
        "\(VisibleText.name(name)): these options change the policy that "
          + "\(VisibleText.bare(before.program)) declared before: \(VisibleText.bare(difference)): "
          + "use 'cbctl policy' to settle it for every caller")
    }
    return breaker
  }

  /// The declaration in force; nil if there is none or the store fails, which the command reports.
  private func declarationInForce(of name: String) -> PolicyDeclaration? {
    if case .unavailable = store.health { return nil }
    do throws(StoreError) {
      return try store.declarations(of: name).first { $0.isInForce }
    } catch {
      return nil
    }
  }
}

extension PolicyDeclaration {
  /// The policy as text for people.
  var words: String { text.isEmpty ? "the defaults" : VisibleText.bare(text) }
}

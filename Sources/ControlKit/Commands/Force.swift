import SharedBreaker

extension CommandSpec {
  private static let modes: [BreakerMode] = [.forcedOpen, .forcedClosed, .observe, .automatic]

  static let force = CommandSpec(
    name: "force",
    summary: "set or remove a mode that overrules the state",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .name,
        summary: "the breaker; created if it does not exist, but not by automatic"),
      ArgumentSpec(
        label: "MODE", kind: .choice(modes.map(\.wireName)),
        summary: "forced_open, forced_closed, observe or automatic"),
    ],
    options: [
      OptionSpec(name: "for", kind: .duration, summary: "remove the mode after D"),
      .reason, .fleet,
    ],
    details: [
      "forced_open rejects every call. forced_closed lets every call through. observe lets every "
        + "call through too, and records what the breaker would have done. automatic removes the "
        + "mode, so that the state decides again.",
      "The first three create the breaker and the store if they do not exist, so that you can hold "
        + "a service off before its first call. automatic creates nothing.",
    ],
    examples: [
      Example(
        "cbctl force payments forced_open --for 2h --reason maintenance",
        "reject every call for two hours"),
      Example("cbctl force payments automatic", "remove the mode"),
      Example("cbctl force payments forced_open --for 2h --fleet", "reject calls on every host"),
    ],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let mode = parsed.text("MODE").flatMap { BreakerMode(wireName: $0) } ?? .automatic
    if mode == .automatic, parsed.has("for") {
      throw .usage("--for with automatic", "automatic has no end", help: "force")
    }
    let fleet = try context.fleet(of: parsed)
    let name = parsed.text("NAME") ?? ""
    let breaker: Breaker
    var note: String?
    if mode == .automatic {
      breaker = try context.existingBreaker(name, for: fleet)
    } else {
      breaker = try context.madeBreaker(name)
      note = try context.noteOnFirstUse(of: name)
    }
    try context.act { () throws(BreakerError) in
      try breaker.force(
        mode, for: parsed.duration("for"), reason: parsed.text("reason"), scope: fleet.scope)
    }
    if let note { context.note(note) }
    try context.printState(of: [name], after: fleet)
    return .done
  }
}

extension CommandContext {
  /// The message about a name that no breaker has yet, which may be a typing error.
  fileprivate func noteOnFirstUse(of name: String) throws(ControlError) -> String? {
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if found != nil { return nil }
    let words = "\(VisibleText.name(name)): created, because no breaker had that name"
    guard let meant = Suggestion.nearest(to: name, among: try names()) else { return words }
    return "\(words): did you mean \(VisibleText.quoted(meant))?"
  }
}

extension CommandSpec {
  static let trip = CommandSpec(
    name: "trip",
    summary: "open a breaker now",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "for", kind: .duration, summary: "stay open for D instead of the policy's open-for"),
      .reason, .fleet,
    ],
    details: [
      "The breaker closes again by itself, through probes, as after any trip. To reject calls "
        + "until you say otherwise, use 'cbctl force NAME forced_open'."
    ],
    examples: [
      Example(
        "cbctl trip payments --for 10m --reason 'vendor is down'", "stop calls for ten minutes")
    ],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let fleet = try context.fleet(of: parsed)
    let breaker = try context.existingBreaker(parsed.text("NAME") ?? "", for: fleet)
    try context.act { () throws(BreakerError) in
      try breaker.trip(
        for: parsed.duration("for"), reason: parsed.text("reason"), scope: fleet.scope)
    }
    try context.printState(of: [breaker.name], after: fleet)
    return .done
  }
}

extension CommandSpec {
  static let reset = CommandSpec(
    name: "reset",
    summary: "close breakers and clear their counters",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, count: .any, summary: "the breakers")],
    options: [
      OptionSpec(name: "all", summary: "reset every breaker of the store"),
      .reason, .fleet, .yes,
    ],
    details: [
      "Every process sees the reset on its next call. A reset keeps the history, and removes no "
        + "mode.",
      "If no breaker has one of the names, none is reset. --all asks for confirmation; in a "
        + "script, add --yes.",
      "--all --fleet resets the breakers that this store has, on every host.",
    ],
    examples: [Example("cbctl reset payments", "close it when the resource is known to be back")],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "you did not confirm it"],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let fleet = try context.fleet(of: parsed)
    let names = try context.chosenNames(parsed)
    var breakers: [Breaker] = []
    for name in names { breakers.append(try context.existingBreaker(name, for: fleet)) }
    if parsed.has("all"), !names.isEmpty {
      let hosts = fleet.map { " on every host of fleet \(VisibleText.name($0.fleet))" } ?? ""
      try context.confirm("reset \(CountedNoun.text(names.count, "breaker"))\(hosts)?", parsed)
    }
    for breaker in breakers {
      try context.act { () throws(BreakerError) in
        try breaker.reset(reason: parsed.text("reason"), scope: fleet.scope)
      }
    }
    try context.printState(of: names, after: fleet)
    return .done
  }
}

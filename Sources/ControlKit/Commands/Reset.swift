import SharedBreaker

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

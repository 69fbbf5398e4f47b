import SharedBreaker

extension CommandSpec {
  static let reset = CommandSpec(
    name: "reset",
    summary: "close breakers and clear their counters",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, count: .any, summary: "the breakers")],
    options: [
      OptionSpec(name: "all", summary: "reset every breaker of the store"),
      .reason, .yes,
    ],
    details: [
      "Every process sees the reset on its next call. A reset keeps the history, and removes no "
        + "mode.",
      "If no breaker has one of the names, none is reset. --all asks for confirmation; in a "
        + "script, add --yes.",
    ],
    examples: [Example("cbctl reset payments", "close it when the resource is known to be back")],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let names = try context.chosenNames(parsed)
    var breakers: [Breaker] = []
    for name in names { breakers.append(try context.existingBreaker(name)) }
    if parsed.has("all"), !names.isEmpty {
      try context.confirm("reset \(CountedNoun.text(names.count, "breaker"))?", parsed)
    }
    for breaker in breakers {
      try context.act { () throws(BreakerError) in
        try breaker.reset(reason: parsed.text("reason"))
      }
    }
    try context.printState(of: names)
    return .done
  }
}

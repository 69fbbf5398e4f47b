import SharedBreaker

extension CommandSpec {
  static let reset = CommandSpec(
    name: "reset",
    summary: "close breakers and clear their counters",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, count: .any, summary: "the breakers")],
    options: [
      OptionSpec(name: "all", summary: "every breaker of the store"),
      .reason, .yes,
    ],
    details: [
      "Every process sees it with its next call. The history is kept, and so is a forced mode.",
      "If one of the names is wrong, none is reset. --all asks first; in a script it needs --yes.",
    ],
    examples: [Example("cbctl reset payments", "the resource is known to be back")],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let names = try context.chosenNames(parsed)
    var breakers: [Breaker] = []
    for name in names { breakers.append(try context.existingBreaker(name)) }
    if parsed.has("all"), !names.isEmpty {
      try context.confirm("reset \(StateLine.counted(Int64(names.count), "breaker"))?", parsed)
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

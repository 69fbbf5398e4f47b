import SharedBreaker

extension CommandSpec {
  static let reset = CommandSpec(
    name: "reset",
    summary: "close breakers and clear their counters",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, count: .any, summary: "the breakers")],
    options: [
      OptionSpec(name: "all", summary: "every breaker of the store"),
      .reason,
    ],
    details: [
      "Every process sees it with its next call. The history is kept, and so is a forced mode.",
      "If one of the names is wrong, none is reset.",
    ],
    examples: [Example("cbctl reset payments", "the resource is known to be back")]
  ) { session, parsed throws(ControlError) in
    var names = parsed.distinctTexts("NAME")
    if parsed.has("all") != names.isEmpty {
      let given = names.isEmpty ? "neither names nor --all" : "both names and --all"
      throw .usage("which breakers?", "\(given) are given", help: "reset")
    }
    if parsed.has("all") {
      names = try session.names()
      if names.isEmpty { session.note("no breakers: nothing to reset") }
    }
    var breakers: [Breaker] = []
    for name in names { breakers.append(try session.existingBreaker(name)) }
    for breaker in breakers {
      try session.act { () throws(BreakerError) in
        try breaker.reset(reason: parsed.text("reason"))
      }
    }
    try session.printState(of: names)
    return .done
  }
}

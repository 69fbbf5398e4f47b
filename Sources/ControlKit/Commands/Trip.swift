import SharedBreaker

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

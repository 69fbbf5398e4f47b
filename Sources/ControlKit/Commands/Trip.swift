import SharedBreaker

extension CommandSpec {
  static let trip = CommandSpec(
    name: "trip",
    summary: "open a breaker now, as a failure would",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(name: "for", kind: .duration, summary: "stay open for D, not the policy's time"),
      .reason,
    ],
    details: [
      "It comes back by itself, through probes, as after any trip. To keep it open until told "
        + "otherwise, use 'cbctl force NAME open'."
    ],
    examples: [Example("cbctl trip payments --for 10m --reason 'vendor is down'", "stop calls")]
  ) { context, parsed throws(ControlError) in
    let breaker = try context.breaker(parsed)
    try context.act { () throws(BreakerError) in
      try breaker.trip(for: parsed.duration("for"), reason: parsed.text("reason"))
    }
    try context.printState(of: [breaker.name])
    return .done
  }
}

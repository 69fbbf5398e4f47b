import SharedBreaker

extension CommandSpec {
  private static let modes: [(word: String, mode: BreakerMode)] = [
    ("open", .forcedOpen), ("closed", .forcedClosed), ("observe", .observe), ("auto", .automatic),
  ]

  static let force = CommandSpec(
    name: "force",
    summary: "lay a mode over a breaker's state, or take it away",
    arguments: [
      ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker"),
      ArgumentSpec(
        label: "MODE", kind: .choice(modes.map(\.word)),
        summary: "open, closed, observe or auto"),
    ],
    options: [
      OptionSpec(name: "for", kind: .duration, summary: "end the mode by itself after D"),
      .reason,
    ],
    details: [
      "open rejects every call. closed lets every call through. observe lets every call through "
        + "too, but records what it would have done. auto gives the word back to the state."
    ],
    examples: [
      Example("cbctl force payments open --for 2h --reason maintenance", "no calls for two hours"),
      Example("cbctl force payments auto", "back to normal"),
    ]
  ) { session, parsed throws(ControlError) in
    let word = parsed.text("MODE")
    let mode = modes.first { $0.word == word }?.mode ?? .automatic
    if mode == .automatic, parsed.has("for") {
      throw .usage("--for with auto", "auto has no end", help: "force")
    }
    let breaker = try session.breaker(parsed)
    try session.act { () throws(BreakerError) in
      try breaker.force(mode, for: parsed.duration("for"), reason: parsed.text("reason"))
    }
    try session.printState(of: [breaker.name])
    return .done
  }
}

@_spi(Relay) import SharedBreaker

extension CommandSpec {
  static let hold = CommandSpec(
    name: "hold",
    summary: "hold calls until an instant, because the resource asks for it",
    arguments: [
      .changed(
        "the breaker, or a pattern with * or ?; a breaker is created if it does not exist, but not "
          + "by --end")
    ],
    options: [
      OptionSpec(name: "for", kind: .duration, summary: "hold calls for D"),
      .until("hold calls until T, such as 14:05 or an RFC 3339 time"),
      OptionSpec(name: "end", summary: "end the hold, so that all calls may go"),
      .reason, .fleet, .wait,
    ],
    details: [
      "A resource that answers \"not now\", as HTTP 429 does, works: it is held, and not open. Until the "
        + "hold is over, the calls of every process are rejected with code 75 and the time that is left. "
        + "Then one call goes first, and its success lets the others go.",
      "No failure is counted, and the state stays as it is. The longest hold wins: if calls are held for "
        + "longer already, nothing changes, and the command says so. The policy's hold-max does not cut "
        + "what you say here.",
      "With the policy word fleet-hold=yes, the other hosts of the fleet hold their calls too. --end ends the "
        + "hold on this host alone, and --end --fleet on every host.",
      timeOfDay,
    ],
    examples: [
      Example(
        "cbctl hold openai/prod-key --until 14:05 --reason 'quota used up'",
        "no process calls before 14:05"),
      Example("cbctl hold openai/prod-key --end", "all may go again"),
      Example("cbctl hold openai/prod-key --end --fleet", "on every host"),
    ],
    exitCodes: [.done, .usage, .noBreaker, .unconfirmed, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let ways = ["for", "until", "end"].filter { parsed.has($0) }
    guard ways.count == 1 else {
      let given =
        ways.isEmpty ? "none of --for, --until and --end" : "--\(ways[0]) and --\(ways[1])"
      throw .usage(given, "a hold has one end", help: "hold")
    }
    if parsed.has("fleet"), !parsed.has("end") {
      throw .usage(
        "--fleet with --\(ways[0])", "the policy word fleet-hold=yes shares a hold with the fleet",
        help: "hold")
    }
    return parsed.has("end") ? try context.endHold(parsed) : try context.hold(parsed)
  }
}

extension CommandContext {
  fileprivate func hold(_ parsed: ParsedCommand) throws(ControlError) -> Ending {
    let length = try lengthOfChange(parsed, help: "hold") ?? .zero
    if length == .zero {
      throw .usage("--for 0", "nothing would be held: --end ends a hold", help: "hold")
    }
    return try change(creating: true, for: nil, nil, parsed) { breaker throws(BreakerError) in
      let hold = try breaker.hold(for: length, reason: parsed.text("reason"), isOperators: true)
      guard let hold, hold.endsIn > length else { return nil }
      return "held for another \(SpokenDuration.format(hold.endsIn)) already: nothing was changed"
    }
  }

  fileprivate func endHold(_ parsed: ParsedCommand) throws(ControlError) -> Ending {
    let fleet = try fleet(of: parsed)
    return try change(creating: false, for: fleet, .endHold, parsed) {
      breaker throws(BreakerError) in
      if try breaker.endHold(reason: parsed.text("reason"), scope: fleet.scope) { return nil }
      return fleet == nil ? "not held: nothing was changed" : "not held on this host"
    }
  }
}

import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let check = CommandSpec(
    name: "check",
    summary: "tell whether a call would be permitted now",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: ["Takes no permit and changes nothing. The answer is the exit code: 0 or 75."],
    examples: [
      Example(
        "cbctl check payments --quiet; [ $? -eq 75 ] && exit 0",
        "skip a job while it is open: only 75 says so")
    ],
    exitCodes: [.done, .usage, .noBreaker, .storeUnavailable, .rejected]
  ) { context, parsed throws(ControlError) in
    let snapshot = try context.snapshot(of: parsed.text("NAME") ?? "")
    if context.global.isJSON {
      context.print(
        .object([
          .init("permitted", .bool(snapshot.permits)),
          .init("state", .string(snapshot.state.wireName)),
          .init("retry_after_ms", JSONValue(milliseconds: snapshot.retryAfter)),
          .init("mode", .string(snapshot.mode.wireName)),
          .init("mode_reason", JSONValue(snapshot.modeReason)),
          .init("mode_set_by", JSONValue(snapshot.modeSetBy)),
        ]))
    } else if !context.global.isQuiet {
      let answer = snapshot.permits ? "permitted" : "rejected"
      context.print("\(answer): \(StateLine.words(of: snapshot))\n")
    }
    return snapshot.permits ? .done : .exit(.rejected)
  }
}

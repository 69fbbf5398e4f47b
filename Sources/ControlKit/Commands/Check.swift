import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let check = CommandSpec(
    name: "check",
    summary: "check whether a call would be permitted now",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: [
      "The exit code is the answer: 0 if a call would be permitted, 75 if it would be rejected. "
        + "The command takes no permit and changes nothing."
    ],
    examples: [
      Example(
        "cbctl check payments --quiet; [ $? -eq 75 ] && exit 0",
        "skip a job while calls are rejected: only 75 means that")
    ],
    exitCodes: [.done, .usage, .noBreaker, .storeUnavailable, .rejected],
    meanings: [.done: "a call is permitted"]
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
          .init("mode_set_at", BreakerDocument.time(snapshot.modeSetAt)),
        ]))
    } else if !context.global.isQuiet {
      let answer = snapshot.permits ? "permitted" : "rejected"
      context.print("\(answer): \(StateLine.words(of: snapshot))\n")
    }
    return snapshot.permits ? .done : .exit(.rejected)
  }
}

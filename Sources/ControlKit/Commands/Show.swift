import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let show = CommandSpec(
    name: "show",
    summary: "tell everything about one breaker",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: [
      "Its state, its window and its last error, its last day drawn in characters, its policy with "
        + "the source of every value and what callers declare that differs, who holds its probes, "
        + "and its last 10 changes. Times are in UTC."
    ],
    examples: [Example("cbctl show payments", "why is it open?")]
  ) { context, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    let snapshot = try context.snapshot(of: name)
    let details = BreakerDetails(
      snapshot: snapshot,
      declarations: try context.ask { store throws(StoreError) in
        try store.declarations(of: name)
      },
      history: try context.ask { store throws(StoreError) in
        try store.history(of: name)
      },
      now: context.now())
    if context.global.isJSON {
      context.print(BreakerDocument.list(of: [details.json]))
    } else {
      context.print(
        details.page(
          width: context.console.width ?? HelpPage.width, painter: context.painter))
    }
    return .done
  }
}

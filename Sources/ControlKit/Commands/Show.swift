import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let show = CommandSpec(
    name: "show",
    summary: "show everything about one breaker",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: [
      "Shows the breaker's state, its window and last error, a chart of its last day, its policy "
        + "and where each value comes from, policies that code has declared and that are not in "
        + "force, the owners of its probes, and its last 10 history entries. Times are in UTC."
    ],
    examples: [Example("cbctl show payments", "find out why it is open")]
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

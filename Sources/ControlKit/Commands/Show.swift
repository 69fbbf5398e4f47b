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
  ) { session, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    let snapshot = try session.snapshot(of: name)
    let details = BreakerDetails(
      snapshot: snapshot,
      declarations: try session.ask { store throws(StoreError) in
        try store.declarations(of: name)
      },
      history: try session.ask { store throws(StoreError) in
        try store.history(of: name)
      },
      now: session.now())
    if session.global.isJSON {
      session.print(BreakerDocument.list(of: [details.json]))
    } else {
      session.print(
        details.page(
          width: session.console.width ?? HelpPage.width, painter: session.painter))
    }
    return .done
  }
}

import SharedBreaker

extension CommandSpec {
  static let show = CommandSpec(
    name: "show",
    summary: "tell everything about one breaker",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: [
      "Its state, its policy with the source of every value, what callers declare that differs, "
        + "its window, who holds its probes, its last error, and its last 10 changes."
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
        try store.history(of: name, limit: 10)
      })
    if session.global.isJSON {
      session.print(BreakerDocument.list(of: [details.json]))
    } else {
      session.print(details.page(at: session.now(), painter: session.painter))
    }
    return .done
  }
}

import SharedBreaker

extension CommandSpec {
  static let delete = CommandSpec(
    name: "delete",
    summary: "remove breakers that nobody uses any more",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, count: .several, summary: "the breakers")],
    details: [
      "A breaker that is still in use comes back with its next call: closed, with its code's "
        + "policy and without the operator's values. The history is kept.",
      "If one of the names is wrong, none is removed.",
    ],
    examples: [Example("cbctl delete old-payments", "the resource is gone for good")]
  ) { session, parsed throws(ControlError) in
    let names = parsed.distinctTexts("NAME")
    for name in names { _ = try session.snapshot(of: name) }
    for name in names {
      _ = try session.ask { store throws(StoreError) in try store.delete(name) }
    }
    if session.global.isJSON {
      session.print(.object([.init("deleted", .array(names.map { .string($0) }))]))
    } else if !session.global.isQuiet {
      session.print(names.map { "\(VisibleText.name($0)): deleted\n" }.joined())
    }
    return .done
  }
}

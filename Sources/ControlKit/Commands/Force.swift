import SharedBreaker

extension CommandSpec {
  private static let modes: [(word: String, mode: BreakerMode)] = [
    ("open", .forcedOpen), ("closed", .forcedClosed), ("observe", .observe), ("auto", .automatic),
  ]

  static let force = CommandSpec(
    name: "force",
    summary: "lay a mode over a breaker's state, or take it away",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .name, summary: "the breaker; created if need be, but not by auto"),
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
        + "too, but records what it would have done. auto gives the word back to the state.",
      "open, closed and observe create the breaker if there is none, and the store too, so that you "
        + "can hold a service off before its first call. auto creates nothing.",
    ],
    examples: [
      Example("cbctl force payments open --for 2h --reason maintenance", "no calls for two hours"),
      Example("cbctl force payments auto", "back to normal"),
    ]
  ) { context, parsed throws(ControlError) in
    let word = parsed.text("MODE")
    let mode = modes.first { $0.word == word }?.mode ?? .automatic
    if mode == .automatic, parsed.has("for") {
      throw .usage("--for with auto", "auto has no end", help: "force")
    }
    let name = parsed.text("NAME") ?? ""
    let breaker: Breaker
    var note: String?
    if mode == .automatic {
      breaker = try context.existingBreaker(name)
    } else {
      breaker = try context.madeBreaker(name)
      note = try context.noteOnFirstUse(of: name)
    }
    try context.act { () throws(BreakerError) in
      try breaker.force(mode, for: parsed.duration("for"), reason: parsed.text("reason"))
    }
    if let note { context.note(note) }
    try context.printState(of: [name])
    return .done
  }
}

extension CommandContext {
  /// The message about a name that no breaker has yet, which may be a typing error.
  fileprivate func noteOnFirstUse(of name: String) throws(ControlError) -> String? {
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if found != nil { return nil }
    let words = "\(VisibleText.name(name)): created, because no breaker had that name"
    guard let meant = Suggestion.nearest(to: name, among: try names()) else { return words }
    return "\(words): did you mean \(VisibleText.quoted(meant))?"
  }
}

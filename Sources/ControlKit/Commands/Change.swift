import SharedBreaker

extension Session {
  /// The one breaker a command names, found before anything is done to it.
  func breaker(_ parsed: ParsedCommand) throws(ControlError) -> Breaker {
    try existingBreaker(parsed.text("NAME") ?? "")
  }

  /// Prints how breakers stand after a change.
  func printState(of names: [String]) throws(ControlError) {
    var snapshots: [BreakerSnapshot] = []
    for name in names {
      let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
      // Somebody may have deleted it since.
      if let found { snapshots.append(found) }
    }
    if global.isJSON {
      print(BreakerDocument.list(snapshots))
    } else if !global.isQuiet {
      print(snapshots.map { StateLine.text(of: $0) + "\n" }.joined())
    }
  }
}

extension OptionSpec {
  static let reason = OptionSpec(name: "reason", kind: .remark, summary: "why, for the history")
}

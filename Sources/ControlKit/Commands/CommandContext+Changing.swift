import BreakerDocuments
import SharedBreaker

extension CommandContext {
  /// The breaker of a name, which its first change creates; creates the store now.
  func madeBreaker(_ name: String) throws(ControlError) -> Breaker {
    try act { () throws(BreakerError) in try Breaker.validate(name: name) }
    try ask { store throws(StoreError) in try store.connect() }
    return try act { () throws(BreakerError) in
      try store.breaker(name, onStoreFailure: .throw)
    }
  }

  /// Prints the states of breakers after a change, which may be for a whole fleet.
  func printState(of names: [String], after fleet: FleetStanding? = nil) throws(ControlError) {
    var snapshots: [BreakerSnapshot] = []
    for name in names {
      let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
      // Another process may have deleted it since.
      if let found { snapshots.append(found) }
    }
    if global.isJSON {
      print(BreakerDocument.list(snapshots))
    } else if !global.isQuiet {
      print(snapshots.map { StateLine.text(of: $0) + fleet.words + "\n" }.joined())
    }
    noteDelay(of: fleet)
  }
}

extension OptionSpec {
  static let reason = OptionSpec(
    name: "reason", kind: .remark, summary: "why, as the history will show it")
}

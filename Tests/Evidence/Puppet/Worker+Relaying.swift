@_spi(Relay) import SharedBreaker
import TestSupport

/// Acts of a process as the relay of its store, or for a whole fleet.
extension Worker {
  /// `claim FLEET HOST`: becomes the relay, unless another process is.
  func claim(_ words: [String]) throws -> String {
    relay = try store.claimRelay(fleet: words[0], host: words[1])
    return relay == nil ? "taken" : "ok"
  }

  func release() -> String {
    relay?.release()
    return "ok"
  }

  /// `fleet trip`: gives a command to the whole fleet.
  func command(_ words: [String]) throws -> String {
    switch words[0] {
    case "trip": try breaker.trip(reason: "drill", scope: .fleet)
    case "policy": try breaker.overridePolicy(set: [.openFor: words[1]], scope: .fleet)
    default: return "error no command"
    }
    return "ok"
  }

  /// `news [each]`: applies news of every kind, in one transaction or each in its own, and answers what
  /// came of them.
  func news(_ words: [String]) throws -> String {
    guard let relay else { return "error no relay" }
    func command(_ action: FleetCommand.Action, stamp: Int64) -> FleetNews {
      .command(
        FleetCommand(
          name: "api", action: action, reason: "news", author: "ann", host: "b", stamp: stamp,
          age: .zero))
    }
    let verdicts = try relay.apply(
      [
        command(.policy(set: [.openFor: "5m"], unset: []), stamp: 11),
        command(.force(.observe, for: nil), stamp: 12),
        command(.trip(for: nil), stamp: 13),
        .recovery(name: "api", host: "c"),
      ], position: FleetPosition(epoch: "e", number: 4, entry: "4-0"),
      turn: words.first == "each" ? .zero : .seconds(3_600))
    return verdicts.map { "\($0)" }.joined(separator: " ")
  }
}

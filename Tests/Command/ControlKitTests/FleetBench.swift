@_spi(Relay) import SharedBreaker
import Testing

@testable import ControlKit

/// A store whose host belongs to a fleet, with a relay that does what the test says.
final class FleetBench: Sendable {
  let bench = CommandBench()

  /// The right to be the relay, which the test holds until it releases it.
  let relay: RelayClaim

  init(isConnected: Bool = true, problem: String? = nil) throws {
    for name in ["pay", "mail"] { _ = bench("policy", name, "--set", "probes=2") }
    let store = SharedStore(path: bench.path, options: bench.options)
    relay = try #require(try store.claimRelay(fleet: "prod", host: "host-a"))
    try relay.note(isConnected: isConnected, problem: problem)
  }

  func callAsFunction(_ words: String...) -> Answer { bench.run(words) }

  /// Runs one command line on a terminal without colours.
  func onTerminal(_ words: String...) -> Answer {
    let recorder = Recorder()
    return bench.run(words + ["--no-color"], on: recorder.console(width: 80), recorder)
  }

  /// The commands that wait for the relay.
  func pending() throws -> [FleetCommand] { try relay.pendingCommands().map(\.command) }

  /// A command of another host.
  func command(
    _ action: FleetCommand.Action, to name: String = "pay", reason: String? = nil
  ) -> FleetCommand {
    FleetCommand(
      name: name, action: action, reason: reason, author: "cbctl (pid 9)", host: "host-b",
      stamp: 1, age: .zero)
  }
}

import ControlKit
import Glibc
import SharedBreaker
import TestSupport
import TortureReferee

/// Ends the process like a command.
private func end(_ ending: Ending) -> Never { exit(ending.code) }

private func torture(_ arguments: [String]) throws -> Bool {
  let options = try TortureOptions(arguments, others: ["--directory"])
  let torture = Torture(
    options: options,
    directory: options.others["--directory"]?.last ?? "/tmp/shared-breaker-torture.\(getpid())")
  Interruption.listen()
  do {
    return try torture.run()
  } catch is Interruption {
    Files.removeAll(torture.directory)
    exit(130)
  }
}

/// Runs as the referee, which starts this program again for each other process.
do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let role = Role(arguments.dropFirst())
  switch arguments.first {
  case "worker":
    try Worker(role).run(threads: role.number("threads"))
  case "commander":
    try Commander(role).run()
  case "cbctl":
    // The real command, but with a clock that the referee moves.
    let options = StoreOptions(clock: try role.clock())
    let words = Array(arguments.dropFirst(2))
    end(ControlKit.run(arguments: words, console: .system(), options: options))
  default:
    exit(try torture(arguments) ? 0 : 1)
  }
} catch {
  TortureOptions.complain(error)
}

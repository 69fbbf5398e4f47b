import ControlKit
import Glibc
import SharedBreaker
import TestSupport

/// Ends the process like a command.
private func end(_ ending: Ending) -> Never { exit(ending.code) }

/// Lets processes use breakers, while they are killed and stopped and lose files, disk and time.
private func tortureBreakers(_ arguments: [String]) throws -> Bool {
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

/// Lets processes share a limit, while it is changed and they are killed, stopped and replaced.
private func tortureLimits(_ arguments: [String]) throws {
  let options = try TortureOptions(arguments, others: ["--client"])
  let clients = [BuiltProducts.path(of: "torture")] + (options.others["--client"] ?? [])
  var total = LimitTally()
  try options.play("--limits") { number in
    let plan = LimitPlan(seed: options.seed, number: number)
    TortureOptions.say("phase \(number): \(plan.description)")
    let run = try LimitPhase(plan, clients)
    let violations = try run.run()
    total += run.tally
    return (run.tally.text, violations, run.directory)
  }
  TortureOptions.say("\(total.text), violations 0")
}

/// Lets the hosts of a fleet work, while their relays and their server are killed, stopped, emptied,
/// filled, cut off and forged at.
private func tortureFleet(_ arguments: [String]) throws {
  let options = try TortureOptions(arguments)
  var (phases, faults, commands, suspicions, confirmed) = (0, 0, 0, 0, 0)
  try options.play("--fleet") { number in
    let plan = FleetPlan(seed: options.seed, number: number)
    TortureOptions.say("phase \(number): \(plan.description)")
    let run = try FleetPhase(plan)
    let violations = try run.run()
    phases += 1
    faults += run.faults
    commands += run.commands
    suspicions += run.suspicions
    confirmed += run.confirmed
    let summary =
      "faults \(run.faults), commands \(run.commands), suspicions \(run.suspicions),"
      + " confirmations \(run.confirmed)"
    return (summary, violations, run.directory)
  }
  TortureOptions.say(
    "phases \(phases), faults \(faults), commands \(commands), suspicions \(suspicions),"
      + " confirmations \(confirmed), violations 0")
}

/// Runs as the referee, which starts this program again for each other process.
do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let words = Array(arguments.dropFirst())
  switch arguments.first {
  case "--fleet": try tortureFleet(words)
  case "--limits": try tortureLimits(words)
  case "worker":
    let role = Role(words)
    try TortureWorker(role).run(threads: role.number("threads"))
  case "commander": try Commander(Role(words)).run()
  case "cbctl":
    // The real command, but with a clock that the referee moves.
    let options = StoreOptions(clock: try Role(words).clock())
    end(
      ControlKit.run(
        arguments: Array(words.dropFirst()), console: .system(), options: options))
  case "limit-worker": try await LimitWorker(words).run()
  case "limit-commander": try LimitCommander(words).run()
  case "limit-hold": try LimitCommander.hold(words)
  case "limit-caller": try await LimitWorker.wait(words)
  default: exit(try tortureBreakers(arguments) ? 0 : 1)
  }
} catch {
  TortureOptions.complain(error)
}

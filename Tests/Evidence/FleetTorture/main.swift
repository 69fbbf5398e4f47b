import TestSupport
import TortureReferee

// Lets the hosts of a fleet work, while their relays and their server are killed, stopped, emptied,
// filled, cut off and forged at. See Tests/Evidence/Torture/README.md.

do {
  let options = try TortureOptions(Array(CommandLine.arguments.dropFirst()))
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
} catch {
  TortureOptions.complain(error)
}

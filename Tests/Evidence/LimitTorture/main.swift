import TestSupport
import TortureReferee

// Lets processes share a limit, while it is changed and they are killed, stopped and replaced. See
// Tests/Evidence/Torture/README.md.

private func torture(_ arguments: [String]) throws {
  let options = try TortureOptions(arguments, others: ["--client"])
  let clients = [BuiltProducts.path(of: "limit-torture")] + (options.others["--client"] ?? [])
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

do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let words = Array(arguments.dropFirst())
  switch arguments.first {
  case "worker": try await LimitWorker(words).run()
  case "commander": try LimitCommander(words).run()
  case "hold": try LimitCommander.hold(words)
  case "caller": try await LimitWorker.wait(words)
  default: try torture(arguments)
  }
} catch {
  TortureOptions.complain(error)
}

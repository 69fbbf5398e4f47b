import Glibc
import TestSupport
import TortureReferee

// Lets the hosts of a fleet work, while their relays and their server are killed, stopped, emptied,
// filled, cut off and forged at. See Tests/Torture/README.md.

private func say(_ line: String) {
  let bytes = Array((line + "\n").utf8)
  _ = unsafe write(1, bytes, bytes.count)
}

private func number(_ text: String, of option: String) throws -> Int {
  guard let number = Int(text), number >= 0 else {
    throw SupportError("\(option) \(text): give a number")
  }
  return number
}

/// Runs the phases; returns whether there were no violations.
private func torture(_ arguments: [String]) throws -> Bool {
  var seconds = 60
  var seed = UInt64.random(in: 0...999_999_999)
  var only: Int?
  var rest = arguments[...]
  while let word = rest.popFirst() {
    guard let value = rest.popFirst() else { throw SupportError("\(word) needs a value") }
    switch word {
    case "--seconds": seconds = try number(value, of: word)
    case "--seed": seed = UInt64(try number(value, of: word))
    case "--phase": only = try number(value, of: word)
    default: throw SupportError("there is no option \(word)")
    }
  }
  say("seed \(seed)")
  let deadline = ContinuousClock.now + .seconds(seconds)
  var phase = only ?? 0
  var (phases, faults, commands, suspicions, confirmed) = (0, 0, 0, 0, 0)
  repeat {
    let plan = FleetPlan(seed: seed, number: phase)
    say("phase \(phase): \(plan.description)")
    let run = try FleetPhase(plan)
    let violations = try run.run()
    phases += 1
    faults += run.faults
    commands += run.commands
    suspicions += run.suspicions
    confirmed += run.confirmed
    say(
      "  faults \(run.faults), commands \(run.commands), suspicions \(run.suspicions),"
        + " confirmations \(run.confirmed), violations \(violations.count)")
    guard violations.isEmpty else {
      for violation in violations.prefix(50) { say("  \(violation)") }
      say("all of it is kept in \(run.directory.path); to make the same choices again:")
      say("  scripts/torture --fleet --seed \(seed) --phase \(phase)")
      // Without an end of its own, the directory stays.
      exit(1)
    }
    phase += 1
  } while only == nil && ContinuousClock.now < deadline
  say(
    "phases \(phases), faults \(faults), commands \(commands), suspicions \(suspicions),"
      + " confirmations \(confirmed), violations 0")
  return true
}

do {
  exit(try torture(Array(CommandLine.arguments.dropFirst())) ? 0 : 1)
} catch {
  say("torture: \(error)")
  exit(2)
}

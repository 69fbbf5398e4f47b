import Glibc
import TestSupport
import TortureReferee

// Lets processes share a limit, while it is changed and they are killed, stopped and replaced. See
// Tests/Torture/README.md.

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
  var total = LimitTally()
  repeat {
    let plan = LimitPlan(seed: seed, number: phase)
    say("phase \(phase): \(plan.description)")
    let run = try LimitPhase(plan)
    let violations = try run.run()
    total += run.tally
    say("  \(run.tally.text), violations \(violations.count)")
    guard violations.isEmpty else {
      for violation in violations.prefix(50) { say("  \(violation)") }
      say("all of it is kept in \(run.directory.path); to make the same choices again:")
      say("  scripts/torture --limits --seed \(seed) --phase \(phase)")
      // Without an end of its own, the directory stays.
      exit(1)
    }
    phase += 1
  } while only == nil && ContinuousClock.now < deadline
  say("\(total.text), violations 0")
  return true
}

do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let words = Array(arguments.dropFirst())
  switch arguments.first {
  case "worker": try await LimitWorker(words).run()
  case "commander": try LimitCommander(words).run()
  case "hold": try LimitCommander.hold(words)
  case "caller": try await LimitWorker.wait(words)
  default: exit(try torture(arguments) ? 0 : 1)
  }
} catch {
  let bytes = Array("torture: \(error)\n".utf8)
  _ = unsafe write(2, bytes, bytes.count)
  exit(2)
}

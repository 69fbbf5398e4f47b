import Glibc
import TestSupport

/// Runs one phase after the other until the time is over or a violation is found.
struct Torture {
  let options: TortureOptions
  let directory: String

  /// Runs the phases; returns whether there were no violations.
  func run() throws -> Bool {
    let (seed, only) = (options.seed, options.only)
    TortureOptions.say("seed \(seed)")
    try Files.makeDirectory(directory)
    let mayFillDisks = SmallDisk.isPermitted
    if !mayFillDisks { TortureOptions.say("no disk is filled, which needs root") }
    let deadline = Scribe.now() + Int64(options.seconds) * 1_000_000_000
    var total = Tally()
    var number = only ?? 0
    repeat {
      let plan = Plan(seed: seed, number: number, mayFillDisks: mayFillDisks)
      TortureOptions.say("phase \(number): \(plan.description)")
      let place = "\(directory)/phase-\(number)"
      let (violations, tally) = try run(plan, in: place)
      total += tally
      TortureOptions.say("  \(tally.text), violations \(violations.count)")
      guard violations.isEmpty else {
        for violation in violations.prefix(50) { TortureOptions.say("  \(violation)") }
        TortureOptions.say("all of it is kept in \(place); to make the same choices again:")
        TortureOptions.say("  scripts/torture --seed \(seed) --phase \(number)")
        return false
      }
      Files.removeAll(place)
      number += 1
    } while only == nil && Scribe.now() < deadline
    Files.removeAll(directory)
    TortureOptions.say("phases \(total.phases), \(total.text), violations 0")
    return true
  }

  private func run(_ plan: Plan, in place: String) throws -> ([Violation], Tally) {
    let phase = try Phase(plan, in: place)
    return (try phase.run(), phase.tally)
  }
}

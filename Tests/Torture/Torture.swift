import Glibc
import TestSupport
import TortureReferee

/// Runs one phase after the other until the time is over or a violation is found.
struct Torture {
  var seconds: Int
  var seed: UInt64

  /// The only phase to run; nil for all of them.
  var only: Int?
  var directory: String

  /// Runs the phases; returns whether there were no violations.
  func run() throws -> Bool {
    print("seed \(seed)")
    try Files.makeDirectory(directory)
    let mayFillDisks = SmallDisk.isPermitted
    if !mayFillDisks { print("no disk is filled, which needs root") }
    let deadline = Scribe.now() + Int64(seconds) * 1_000_000_000
    var total = Tally()
    var number = only ?? 0
    repeat {
      let plan = Plan(seed: seed, number: number, mayFillDisks: mayFillDisks)
      print("phase \(number): \(plan.description)")
      let place = "\(directory)/phase-\(number)"
      let (violations, tally) = try run(plan, in: place)
      total += tally
      print("  \(tally.text), violations \(violations.count)")
      guard violations.isEmpty else {
        for violation in violations.prefix(50) { print("  \(violation)") }
        print("all of it is kept in \(place); to make the same choices again:")
        print("  scripts/torture --seed \(seed) --phase \(number)")
        return false
      }
      Files.removeAll(place)
      number += 1
    } while only == nil && Scribe.now() < deadline
    Files.removeAll(directory)
    print("phases \(total.phases), \(total.text), violations 0")
    return true
  }

  private func run(_ plan: Plan, in place: String) throws -> ([Violation], Tally) {
    let phase = try Phase(plan, in: place)
    return (try phase.run(), phase.tally)
  }

  /// Prints at once, even into a file.
  private func print(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe write(1, bytes, bytes.count)
  }
}

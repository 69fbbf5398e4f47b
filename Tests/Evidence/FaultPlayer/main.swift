import FaultShim
import Glibc
import TestSupport
import TestShim

/// Makes the disk under a store fail, or cuts its power.
///
/// `fault-player faults SCENARIO DIRECTORY STRIDE LASTING` makes every STRIDE-th step fail once,
/// and begins a lasting fault at every LASTING-th step. `fault-player power-cuts STORY DIRECTORY
/// STRIDE SEEDS` cuts the power at every STRIDE-th step. `fault-player kills repair DIRECTORY STRIDE 0`
/// kills a process at every STRIDE-th step of a repair, and at each change of a name.
///
/// It prints what was wrong, and a last line with figures.
///
/// `fault-player make DIRECTORY STEP [GROUP]` makes a store and stops before a step. `fault-player beside
/// DIRECTORY [open]` uses the same store meanwhile, and prints how long it has waited.
let words = CommandLine.arguments.dropFirst().map { $0 }
// A call that never returns ends the process.
ts_limit(900)
if [3, 4].contains(words.count), words[0] == "make", let step = Int32(words[2]) {
  do {
    try StoppedMaker.make(
      in: words[1], stoppingBefore: step, group: words.count == 4 ? words[3] : nil)
  } catch {
    print("\(error)")
    exit(1)
  }
  exit(0)
}
if [2, 3].contains(words.count), words[0] == "beside" {
  try StoppedMaker.beside(in: words[1], isOpen: words.last == "open")
  exit(0)
}
guard words.count == 5, let stride = Int(words[3]), let last = Int(words[4]) else {
  print(FaultScenario.all.map { "faults \($0.name)" }.joined(separator: "\n"))
  print(Story.all.map { "power-cuts \($0.name)" }.joined(separator: "\n"))
  exit(64)
}
precondition(fault_install() == 0)
unsafe fault_set_place(words[2])
let complaints: [String]
let figures: String
if words[0] == "faults", let scenario = FaultScenario.named(words[1]) {
  let sweep = Sweep(scenario, in: words[2], stride: stride, lasting: last)
  try sweep.run(Fault.all)
  complaints = sweep.complaints
  figures = "\(sweep.runs) runs, \(sweep.strikes) faults, longest \(sweep.slowest)"
} else if words[0] == "power-cuts", let story = Story.named(words[1]) {
  let powerCut = PowerCut(story, in: words[2])
  try powerCut.run(seeds: last, stride: stride)
  complaints = powerCut.complaints
  figures = "\(powerCut.cuts) power cuts, \(powerCut.boots) boots"
} else if words[0] == "kills" {
  let kills = RepairKill(in: words[2])
  try kills.run(stride: stride)
  complaints = kills.complaints
  figures = "\(kills.count) kills"
} else {
  exit(64)
}
for complaint in complaints { print("WRONG \(complaint)") }
print("\(words[1]): \(figures), \(complaints.count) wrong")
exit(complaints.isEmpty ? 0 : 1)

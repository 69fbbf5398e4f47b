import FaultShim
import Glibc
import TestSupport
import TestShim

/// `fault-player SCENARIO DIRECTORY [STRIDE]`: makes every step fail; puts out what was wrong, and at last a
/// line with figures.
let words = Array(CommandLine.arguments.dropFirst())
guard words.count >= 2, let scenario = Scenario.named(words[0]) else {
  print(Scenario.all.map(\.name).joined(separator: "\n"))
  exit(64)
}
precondition(fault_install() == 0)
// A call that never returns ends the process.
ts_limit(300)
let stride = words.count > 2 ? Int(words[2]) ?? 1 : 1
let sweep = Sweep(scenario, in: words[1], stride: stride)
try sweep.run(Fault.all)
for complaint in sweep.complaints { print("WRONG \(complaint)") }
print(
  "\(scenario.name): \(sweep.runs) runs, \(sweep.strikes) faults, longest \(sweep.slowest),"
    + " \(sweep.complaints.count) wrong")
exit(sweep.complaints.isEmpty ? 0 : 1)

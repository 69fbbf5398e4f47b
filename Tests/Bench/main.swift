// What the library costs, beside the floor that it stands on, measured in the same run.
//
//     bench [--quick] [--json]

import Glibc
import SharedBreaker

let arguments = Array(CommandLine.arguments.dropFirst())

if arguments.first == "write", arguments.count == 5,
  let kind = Writers.Kind(rawValue: arguments[1]),
  let start = Double(arguments[3]), let duration = Double(arguments[4])
{
  try Writers.write(kind, path: arguments[2], from: start, for: duration)
  exit(0)
}

let isQuick = arguments.contains("--quick")
let isJSON = arguments.contains("--json")
guard arguments.allSatisfy({ ["--quick", "--json"].contains($0) }) else {
  print("usage: bench [--quick] [--json]")
  exit(64)
}

let room = "/var/tmp/shared-breaker-bench-\(getpid())"
unsafe mkdir(room, 0o700)
let calls = isQuick ? 200_000 : 2_000_000
let writes = isQuick ? 2_000 : 20_000
let rounds = isQuick ? 3 : 5

let single = try singleProcessFigures(room: room, calls: calls, writes: writes)
let several = contentionFigures(room: room, duration: isQuick ? 0.5 : 1)
let series = try measure(single + several, rounds: rounds)
print(isJSON ? Report.json(series) : Report.table(series), terminator: "")
for name in [
  "raw.db", "store.db", "writers-raw-timeout.db", "writers-raw-pauses.db", "writers-breaker.db",
] {
  for part in ["", "-wal", "-shm"] { unsafe unlink("\(room)/\(name)\(part)") }
}
unsafe rmdir(room)

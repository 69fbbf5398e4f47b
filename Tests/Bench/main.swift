// What the library costs, beside the floor that it stands on and the breakers of others, measured in
// the same run. It is started by scripts/bench, which makes its room and takes it away.

import BenchReport
import Glibc
import TestSupport

let words = Array(CommandLine.arguments.dropFirst())

do {
  if words.first == "child", words.count > 1, let role = Role(rawValue: words[1]) {
    try role.run(Array(words.dropFirst(2)))
  } else if let options = Options(words) {
    try run(options)
  } else {
    complain("usage: scripts/bench [--quick] [--json] [--plot FILE.svg]")
    exit(64)
  }
} catch {
  complain("\(error)")
  exit(1)
}

func run(_ options: Options) throws {
  let scale = Scale(isQuick: options.isQuick)
  let room = Room(path: options.room)
  let peers = try options.peers.map {
    try Peers(python: $0, script: options.peerScript, socket: room.file("redis.socket"))
  }
  let bench = Bench(room: room, scale: scale, peers: peers)
  let series = measure(try bench.figures(), rounds: scale.rounds)
  let host = try host()
  print(
    options.isJSON ? JSONReport.document(series, host: host) : TextReport.table(series),
    terminator: "")
  if let path = options.plot {
    complain("drawing \(path)")
    try Files.write(path, Array(try bench.plot().utf8))
  }
}

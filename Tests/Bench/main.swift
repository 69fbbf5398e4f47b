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
    complain("usage: scripts/bench [--quick] [--json] [--only TEXT] [--plot FILE.svg]")
    exit(64)
  }
} catch {
  complain("\(error)")
  exit(1)
}

func run(_ options: Options) throws {
  let scale = Scale(isQuick: options.isQuick)
  let room = Room(path: options.room)
  let peers = options.peers.flatMap { startPeers($0, options.peerScript, room) }
  let bench = Bench(room: room, scale: scale, peers: peers)
  let figures = try bench.figures().filter {
    options.topic.isEmpty || $0.subject.topic.contains(options.topic)
  }
  if figures.isEmpty { throw BenchError("no topic has '\(options.topic)' in its name") }
  let series = measure(figures, rounds: scale.rounds)
  let host = try host()
  print(
    options.isJSON ? JSONReport.document(series, host: host) : TextReport.table(series),
    terminator: "")
  // The plot takes its time.
  fflush(nil)
  if let path = options.plot {
    complain("drawing \(path)")
    try Files.write(path, Array(try bench.plot().utf8))
  }
}

/// The library is measured also where others cannot be.
func startPeers(_ python: String, _ script: String, _ room: Room) -> Peers? {
  do {
    return try Peers(python: python, script: script, socket: room.file("redis.socket"))
  } catch {
    complain("the peers are left out: \(error)")
    return nil
  }
}

// Measures what the library costs, and in the same run its floors and other libraries' breakers.
// scripts/bench starts it, creates its room and removes it.

import Glibc
import TestSupport

let words = Array(CommandLine.arguments.dropFirst())

do {
  if words.first == "child", words.count > 1, let role = Role(rawValue: words[1]) {
    try role.run(Array(words.dropFirst(2)))
  } else if let options = BenchOptions(words) {
    try run(options)
  } else {
    complain("usage: scripts/bench [--quick] [--json] [--only TEXT] [--plot FILE.svg]")
    exit(64)
  }
} catch {
  complain("\(error)")
  exit(1)
}

func run(_ options: BenchOptions) throws {
  let scale = Scale(isQuick: options.isQuick)
  let room = Room(path: options.room)
  let peers = options.peers.flatMap { startPeers($0, options.peerScript, room) }
  let bench = Benchmark(room: room, scale: scale, peers: peers)
  let figures = try bench.figures().filter {
    options.topic.isEmpty || $0.subject.topic.contains(options.topic)
  }
  if figures.isEmpty { throw BenchError("no topic has '\(options.topic)' in its name") }
  let series = measure(figures, rounds: scale.rounds)
  let host = try host()
  print(
    options.isJSON ? JSONReport.document(series, host: host) : TextReport.table(series),
    terminator: "")
  // Flushed first, because the plot takes long.
  fflush(nil)
  if let path = options.plot {
    complain("drawing \(path)")
    try Files.write(path, Array(try bench.plot().utf8))
  }
}

/// Starts the other libraries' breakers; nil if that fails, so that the library is measured anyway.
func startPeers(_ python: String, _ script: String, _ room: Room) -> Peers? {
  do {
    return try Peers(python: python, script: script, socket: room.file("redis.socket"))
  } catch {
    complain("the peers are left out: \(error)")
    return nil
  }
}

import Glibc
import SharedBreaker
import TestSupport

extension Benchmark {
  /// How soon hosts of a fleet hear of each other, and the cost of their relays.
  func fleetFigures() -> [Figure] {
    let fleet = Latest { try FleetRoom() }
    let encrypted = Latest { try FleetRoom(isEncrypted: true) }
    let signed = Latest { try FleetRoom(isSigned: true) }
    let both = Latest { try FleetRoom(isEncrypted: true, isSigned: true) }
    return delayFigures(fleet, encrypted, signed, both) + flowFigures(fleet, both)
      + returnFigures(fleet)
      + relayFigures()
  }

  private static var delays: Int { 100 }

  /// How long it takes until another host knows.
  private func delayFigures(
    _ fleet: Latest<FleetRoom>, _ encrypted: Latest<FleetRoom>, _ signed: Latest<FleetRoom>,
    _ both: Latest<FleetRoom>
  ) -> [Figure] {
    let kinds: [(String, Latest<FleetRoom>, (FleetRoom) throws -> Double)] = [
      ("bare XADD until XREAD has it", fleet, { try $0.bareMicroseconds() }),
      ("a command until the other host has it", fleet, { try $0.commandMicroseconds() }),
      ("the same over TLS", encrypted, { try $0.commandMicroseconds() }),
      ("the same with a key", signed, { try $0.commandMicroseconds() }),
      ("the same with a key, over TLS", both, { try $0.commandMicroseconds() }),
      ("a trip until the other host suspects", fleet, { try $0.suspicionMicroseconds() }),
      ("the same trip with a key, over TLS", both, { try $0.suspicionMicroseconds() }),
    ]
    // An operator who waits would notice more.
    let goals = ["p50": Goal.atMost(5_000), "p99": .atMost(25_000)]
    return kinds.flatMap { name, fleet, measure in
      let latest = Latest { () throws -> [Double] in
        let room = try fleet.once()
        return try (0..<Self.delays).map { _ in try measure(room) }
      }
      return ["p50", "p99"].map { part in
        let bare = "\(kinds[0].0), \(part)"
        let own = "\(name), \(part)"
        let subject = Subject(
          topic: "fleet", name: own, unit: "µs", comparison: own == bare ? nil : .over(bare),
          goal: own == bare ? nil : goals[part], samples: "\(Self.delays) times")
        return Figure(subject: subject) {
          let values = (part == "p50" ? try latest.renewed() : try latest.same()).sorted()
          return values[part == "p50" ? values.count / 2 : values.count - 1 - values.count / 100]
        }
      }
    }
  }

  /// How much a second gets through.
  private func flowFigures(
    _ fleet: Latest<FleetRoom>, _ both: Latest<FleetRoom>
  ) -> [Figure] {
    let commands = Subject(
      topic: "fleet", name: "commands that the other host has applied", unit: "/s",
      goal: .atLeast(1_000), samples: "5,000 of 8 threads")
    let proven = Subject(
      topic: "fleet", name: "the same with a key, over TLS", unit: "/s", goal: .atLeast(1_000),
      samples: "5,000 of 8 threads")
    let trips = Subject(
      topic: "fleet", name: "trips of which the other host suspects the breaker", unit: "/s",
      goal: .atLeast(1_000), samples: "2,000 breakers, 8 threads")
    return [
      Figure(subject: commands) { try fleet.once().commandsASecond(5_000) },
      Figure(subject: proven) { try both.once().commandsASecond(5_000) },
      Figure(subject: trips) { try fleet.once().suspicionsASecond(2_000) },
    ]
  }

  /// How long it takes, after a server without its data is back, until all know what was said meanwhile.
  private func returnFigures(_ fleet: Latest<FleetRoom>) -> [Figure] {
    let subject = Subject(
      topic: "fleet", name: "the server is back until the other host has a command", unit: "ms",
      goal: .atMost(2_000), samples: "slowest of 5")
    return [
      Figure(subject: subject) {
        let room = try fleet.once()
        return try (0..<5).map { _ in try room.millisecondsOfReturn() }.max() ?? 0
      }
    ]
  }

  /// The cost of a relay for a host without news, and for a healthy call.
  private func relayFigures() -> [Figure] {
    // Nothing has happened there: a relay that catches up is not idle.
    let fleet = Latest { try FleetRoom() }
    let both = Latest { try FleetRoom(isEncrypted: true, isSigned: true) }
    let alone = "healthy call, no relay"
    let policy = BreakerPolicy(maxFailures: 5, fleetQuorum: .hosts(3))
    func healthy(
      _ name: String, _ store: @escaping () throws -> SharedStore, against: Comparison? = nil
    ) -> Figure {
      let subject = Subject(
        topic: "fleet", name: name, unit: "ns", comparison: against, samples: "best of 10")
      return Figure(subject: subject) {
        let breaker = try store().breaker("healthy", policy: policy)
        return try bestNanoseconds(HealthyLoops.calls(breaker))
      }
    }
    return idleFigures("relay", fleet) + idleFigures("relay with TLS and a key", both) + [
      healthy(alone, { [store] in store }),
      healthy(
        "healthy call, beside a relay", { try fleet.once().stores[0] }, against: .over(alone)),
    ]
  }
}

extension Benchmark {
  /// The cost of a relay without news.
  private func idleFigures(_ name: String, _ fleet: Latest<FleetRoom>) -> [Figure] {
    let idle = Latest { () throws -> (seconds: Double, megabytes: Double) in
      let room = try fleet.once()
      let before = try room.relayUse()
      let start = seconds()
      usleep(10_000_000)
      let after = try room.relayUse()
      return ((after.seconds - before.seconds) / (seconds() - start), after.megabytes)
    }
    return [
      Figure(
        subject: Subject(
          topic: "fleet", name: "\(name), idle, of one processor", unit: "%", goal: .atMost(0.1),
          samples: "10 s")
      ) { try idle.renewed().seconds * 100 },
      Figure(
        subject: Subject(
          topic: "fleet", name: "\(name), resident memory", unit: "MB", goal: .atMost(20),
          samples: "1")
      ) { try idle.same().megabytes },
    ]
  }
}

/// The steps that are measured.
extension FleetRoom {
  func bareMicroseconds() throws -> Double {
    let reader = try RawRedis(socket: server.socket)
    let writer = try RawRedis(socket: server.socket)
    reader.send(["XREAD", "BLOCK", "0", "STREAMS", "bare", "$"])
    // The reader waits in the server once another question of this process has been answered.
    usleep(1_000)
    let start = seconds()
    writer.send(["XADD", "bare", "MAXLEN", "~", "1000", "*", "k", "open", "b", "payments"])
    _ = try reader.answer()
    return (seconds() - start) * 1e6
  }

  func commandMicroseconds() throws -> Double {
    let pair = try pair()
    return try pair.microseconds(
      of: { try pair.first.force(.observe, scope: .fleet) }, until: { $0.mode == .observe })
  }

  func suspicionMicroseconds() throws -> Double {
    let pair = try pair()
    return try pair.microseconds(
      of: { try pair.first.acquire().fail(error: "down") }, until: { $0.state == .halfOpen })
  }

  func suspicionsASecond(_ count: Int) throws -> Double {
    let pairs = try (0..<count).map { _ in try pair() }
    for pair in pairs { try pair.second.run {} }
    let threads = 8
    let start = seconds()
    Threads.run(threads) { thread in
      for index in stride(from: thread, to: count, by: threads) {
        _ = try? pairs[index].first.acquire().fail(error: "down")
      }
    }
    for pair in pairs {
      while pair.second.snapshot().state != .halfOpen {
        guard seconds() < start + 60 else { throw BenchError("\(pair.second.name): no suspicion") }
        usleep(1_000)
      }
    }
    return Double(count) / (seconds() - start)
  }

  func millisecondsOfReturn() throws -> Double {
    let pair = try pair()
    try pair.second.run {}
    server.kill()
    try waitUntilRelays(areConnected: false)
    try pair.first.force(.observe, scope: .fleet)
    try server.start()
    let start = seconds()
    while pair.second.snapshot().mode != .observe {
      guard seconds() < start + 60 else { throw BenchError("the command does not arrive") }
      usleep(1_000)
    }
    let time = (seconds() - start) * 1_000
    try waitUntilRelays(areConnected: true)
    return time
  }

  func commandsASecond(_ count: Int) throws -> Double {
    let pair = try pair()
    let threads = 8
    let start = seconds()
    Threads.run(threads) { thread in
      for number in 0..<count / threads {
        try? pair.first.force(
          .observe, reason: "\(thread) \(number)", scope: .fleet)
      }
    }
    try pair.first.force(.forcedClosed, scope: .fleet)
    while pair.second.snapshot().mode != .forcedClosed { usleep(1_000) }
    return Double(count) / (seconds() - start)
  }
}

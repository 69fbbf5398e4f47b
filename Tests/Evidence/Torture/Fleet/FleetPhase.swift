import Glibc
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport

/// Some hosts with their relays and one server, while it all goes wrong.
final class FleetPhase {
  private var plan: FleetPlan
  let directory: TemporaryDirectory
  private let server: RedisServer
  private let hosts: [FleetHost]

  /// The proxies between each host and the server.
  private let proxies: [ServerProxy]
  private var relays: [Child?] = []
  private var deaths: [Violation] = []
  private var forger: Forger
  private var hasForged = false
  private var confirmations: [FleetEvidence.Confirmation] = []

  /// Counts for the line that the run prints.
  private(set) var faults = 0
  private(set) var suspicions = 0
  private(set) var commands = 0
  var confirmed: Int { confirmations.count }

  init(_ plan: FleetPlan) throws {
    var plan = plan
    let forgerSeed = plan.random.next()
    self.plan = plan
    let directory = try TemporaryDirectory()
    self.directory = directory
    let saving = plan.savesData ? ["--appendonly", "yes", "--appendfsync", "always"] : []
    let server = try RedisServer(in: directory, options: saving)
    self.server = server
    forger = Forger(server, seed: forgerSeed)
    let keyFile = plan.isSigned ? directory.file("fleet.keys") : nil
    if let keyFile {
      try Files.write(keyFile, Array("\(String(repeating: "5a", count: 32))\n".utf8))
      try Files.changeMode(keyFile, to: 0o600)
    }
    let shim = try Self.shim(in: directory)
    let proxies = try (0..<plan.hosts).map { number in
      try ServerProxy(in: directory, to: server.socket, name: "\(number).proxy")
    }
    self.proxies = proxies
    hosts = try zip(0..., plan.skews).map { number, skew in
      try FleetHost(
        "host-\(number)", in: directory, address: "unix://\(proxies[number].path)",
        keyFile: keyFile, skew: skew, shim: shim)
    }
  }

  /// Compiles what sets the clock of a relay.
  private static func shim(in directory: TemporaryDirectory) throws -> String {
    let here = #filePath.split(separator: "/").dropLast().map { "/\($0)" }.joined()
    let shim = directory.file("skew.so")
    let words = ["-shared", "-fPIC", "-O1", "-o", shim, here + "/skew.c"]
    _ = try Child.run(here + "/../../../../scripts/parts/clang", words)
    return shim
  }

  func run() throws -> [Violation] {
    defer {
      for relay in relays { relay?.kill() }
      server.kill()
    }
    let breakers = try hosts.map { host in
      try FleetPlan.breakers.map { try host.breaker($0, quorum: plan.quorum) }
    }
    relays = try hosts.map { try $0.startRelay() }
    let threads = Threads()
    for (host, breakers) in zip(hosts, breakers) {
      let seed = plan.random.next()
      threads.start { host.call(breakers, seed: seed) }
      threads.start { host.command(breakers, seed: seed &+ 1) }
    }
    try beMischievous()
    try makeWell()
    for host in hosts { host.end() }
    threads.join()
    guard awaits("every relay is connected and has told everything", areQuiet) else {
      return deaths + [Violation(.stuck, "the relays do not catch up within a minute")]
    }
    // The one whose clock is ahead of the others', because it may not have heard their last ones yet.
    let last = hosts.indices.max { hosts[$0].skew < hosts[$1].skew } ?? 0
    try hosts[last].conclude(breakers[last])
    let texts = FleetPlan.breakers.map { "\(hosts[last].name)-\($0)-last" }
    let isKnown = awaits("everyone has the last commands") { [hosts] in
      try hosts.allSatisfy { host in
        Set(try host.store.snapshots().compactMap(\.modeReason)).isSuperset(of: texts)
      }
    }
    guard isKnown else {
      return deaths + [Violation(.stuck, "the last commands do not arrive within a minute")]
    }
    _ = awaits("everyone has the same commands") { [hosts] in
      Set(try hosts.map { try $0.evidence().registers }).count == 1
    }
    return deaths + (try judge())
  }

  private func judge() throws -> [Violation] {
    // An opening lasts as long as the operators' trips do, and a relay may tell it after a stop.
    var evidence = FleetEvidence(quorum: plan.quorum, longestOpening: 5_000)
    for host in hosts { try checkConfirmations(by: host) }
    evidence.hosts = try hosts.map { try $0.evidence() }
    evidence.confirmations = confirmations
    evidence.forgeries = Forger.marks
    evidence.commands = hosts.flatMap(\.commands)
    commands = evidence.commands.count { $0.ending == .done }
    suspicions = evidence.hosts.reduce(0) { $0 + $1.events.count { $0.kind == .suspected } }
    for index in relays.indices { end(index) }
    return FleetReferee.judge(evidence)
  }

  private var areQuiet: () throws -> Bool {
    { [hosts] in
      try hosts.allSatisfy { host in
        try host.store.fleetStanding().map { $0.isConnected && $0.waiting == 0 } ?? false
      }
    }
  }

  private func awaits(_ what: String, _ condition: () throws -> Bool) -> Bool {
    for _ in 0..<1_200 {
      if (try? condition()) == true { return true }
      usleep(50_000)
    }
    return false
  }
}

/// Mischief.
extension FleetPhase {
  private func beMischievous() throws {
    let end = ContinuousClock.now + .seconds(plan.seconds)
    while ContinuousClock.now < end {
      for host in hosts.prefix(plan.sick) { host.setSick(plan.random.number(0...2) == 0) }
      // Often all of them at once, as in a real outage.
      if plan.sick > 1, plan.random.number(0...2) == 0 { for host in hosts { host.setSick(true) } }
      usleep(UInt32(plan.random.number(100_000...600_000)))
      try doHarm()
      try checkConfirmations(by: plan.random.pick(hosts))
      try checkRelays()
    }
  }

  /// Asks a relay which hosts have carried out commands, and these which commands they follow.
  private func checkConfirmations(by host: FleetHost) throws {
    for breaker in FleetPlan.breakers {
      for command in host.confirmations(of: breaker) {
        for other in hosts {
          let standing = command.hosts.first { $0.name == other.name }?.standing
          guard standing == .confirmed else { continue }
          let followed = try other.latest(about: command.aspect, of: breaker)
          confirmations.append(
            FleetEvidence.Confirmation(
              of: "\(breaker), \(command.aspect), \(command.stamp) of \(command.host)",
              by: other.name, to: host.name,
              isTrue: followed.map {
                $0.stamp > command.stamp
                  || ($0.stamp == command.stamp
                    && !$0.host.utf8.lexicographicallyPrecedes(command.host.utf8))
              } ?? false))
        }
      }
    }
  }

  private func doHarm() throws {
    var kinds: [FleetPlan.Kind] = [.relays, .kills, .stops, .losses, .full, .partitions]
    if plan.isSigned { kinds.append(.forgeries) }
    let kind = plan.kind == .mixed ? plan.random.pick(kinds) : plan.kind
    guard kind != .calm else { return }
    faults += 1
    let host = plan.random.number(0...hosts.count - 1)
    switch kind {
    case .calm, .mixed: break
    case .relays:
      relays[host]?.kill()
      relays[host] = nil
      usleep(UInt32(plan.random.number(0...300_000)))
      relays[host] = try hosts[host].startRelay()
    case .kills:
      server.kill()
      usleep(UInt32(plan.random.number(0...500_000)))
      try server.start()
    case .stops:
      let relay = plan.random.number(0...1) == 0 ? relays[host] : nil
      if let relay { relay.stop() } else { server.stop() }
      usleep(UInt32(plan.random.number(100_000...700_000)))
      if let relay { relay.resume() } else { server.resume() }
    case .losses:
      switch plan.random.number(0...2) {
      case 0: try server.command("FLUSHALL")
      case 1: try server.command("XTRIM", "sb:{torture}:stream", "MAXLEN", "0")
      default: try server.command("CLIENT", "KILL", "TYPE", "normal")
      }
    case .partitions:
      // For longer than a relay waits for an answer, or for a moment.
      let manner: ServerProxy.Manner = plan.random.number(0...1) == 0 ? .cut : .hold
      let those = proxies.filter { _ in plan.random.number(0...1) == 0 }
      for proxy in those { proxy.manner = manner }
      let isLong = plan.random.number(0...3) == 0
      usleep(UInt32(plan.random.number(isLong ? 3_000_000...5_000_000 : 50_000...1_000_000)))
      for proxy in those { proxy.manner = .passOn }
    case .forgeries:
      hasForged = true
      for _ in 0..<plan.random.number(1...8) { try forger.act(against: hosts.map(\.name)) }
    case .full:
      try server.command("CONFIG", "SET", "maxmemory", "1")
      usleep(UInt32(plan.random.number(100_000...500_000)))
      try server.command("CONFIG", "SET", "maxmemory", "0")
    }
  }

  private func makeWell() throws {
    for host in hosts { host.setSick(false) }
    // A forger that can write to the server can keep commands from a host that connects, until hosts
    // that know them connect again.
    if hasForged { try server.command("CLIENT", "KILL", "TYPE", "normal") }
  }

  /// A relay never ends by itself.
  private func checkRelays() throws {
    for (index, relay) in relays.enumerated() {
      guard let relay, !Files.exists("/proc/\(relay.pid)/exe") else { continue }
      let code = relay.waitForEnd()
      deaths.append(Violation(.death, "the relay of \(hosts[index].name) ended with \(code)"))
      relays[index] = try hosts[index].startRelay()
    }
  }

  private func end(_ index: Int) {
    guard let relay = relays[index] else { return }
    kill(relay.pid, SIGTERM)
    let code = relay.waitForEnd()
    if code != 0 {
      deaths.append(Violation(.death, "the relay of \(hosts[index].name) ended with \(code)"))
    }
    relays[index] = nil
  }
}

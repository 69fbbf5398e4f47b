import BreakerStore
import Glibc
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import Synchronization
import TestSupport

/// One host of the fleet: a store, callers and an operator in threads, and a relay.
final class FleetHost: Sendable {
  let name: String
  let store: SharedStore
  private let directory: TemporaryDirectory
  private let address: String
  private let keyFile: String?

  /// By how many seconds the clock of the host is wrong.
  let skew: Int
  private let shim: String
  private let isSick = Atomic(false)
  private let isOver = Atomic(false)
  private let journal = Mutex<[FleetEvidence.Command]>([])

  static let openFor = Duration.milliseconds(300)

  init(
    _ name: String, in directory: TemporaryDirectory, address: String, keyFile: String?, skew: Int,
    shim: String
  ) throws {
    self.name = name
    self.directory = directory
    self.keyFile = keyFile
    self.skew = skew
    self.shim = shim
    self.address = address
    store = SharedStore(
      path: directory.file("\(name).db"),
      options: StoreOptions(
        lockTimeout: .seconds(5), program: "torture",
        clock: skew == 0 ? .system : Self.clock(aheadBy: skew)))
    try store.connect()
  }

  /// The system's clock, with another idea of the date.
  private static func clock(aheadBy seconds: Int) -> StoreClock {
    let system = StoreClock.system
    let bootID = (try? Files.read("/proc/sys/kernel/random/boot_id")) ?? []
    let text = String(decoding: bootID, as: UTF8.self).filter { $0 != "\n" }
    return StoreClock(
      bootNanoseconds: { system.instant.nanoseconds },
      wallMilliseconds: { system.wallMilliseconds + Int64(seconds) * 1_000 }, bootID: { text })
  }

  var path: String { directory.file("\(name).db") }
  var commands: [FleetEvidence.Command] { journal.withLock { $0 } }

  func setSick(_ isSick: Bool) { self.isSick.store(isSick, ordering: .relaxed) }
  func end() { isOver.store(true, ordering: .relaxed) }

  /// A relay, whose words go to a file beside the store.
  func startRelay() throws -> Child {
    let words = [
      BuiltProducts.path(of: "cbrelay"), "--redis", address, "--fleet", "torture",
      "--host", name, "--store", path,
    ]
    let line = (words + (keyFile.map { ["--key-file", $0] } ?? [])).map { "'\($0)'" }
      .joined(separator: " ")
    let clock = skew == 0 ? "" : "env LD_PRELOAD='\(shim)' FLEET_SKEW_SECONDS=\(skew) "
    return try Child("/bin/sh", ["-c", "exec \(clock)\(line) 2>>'\(path).log'"])
  }

  func breaker(_ name: String, quorum: Int) throws -> Breaker {
    try store.breaker(
      name,
      policy: BreakerPolicy(
        maxFailures: 3, openFor: Self.openFor, fleetQuorum: .hosts(quorum),
        fleetSpread: .milliseconds(100)))
  }
}

/// The work of its threads.
extension FleetHost {
  func call(_ breakers: [Breaker], seed: UInt64) {
    var random = SeededRandom(seed: seed)
    while !isOver.load(ordering: .relaxed) {
      try? random.pick(breakers).run {
        usleep(1_000)
        if isSick.load(ordering: .relaxed) { throw Down() }
      }
      usleep(UInt32(random.number(500...5_000)))
    }
  }

  private struct Down: Error {}

  func command(_ breakers: [Breaker], seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var count = 0
    while !isOver.load(ordering: .relaxed) {
      count += 1
      let text = "\(name)-\(count)"
      let ending = give(random.pick(breakers), text: text, &random)
      journal.withLock { $0.append(FleetEvidence.Command(text, on: name, ending)) }
      usleep(UInt32(random.number(20_000...200_000)))
    }
  }

  private func give(
    _ breaker: Breaker, text: String, _ random: inout SeededRandom
  ) -> FleetEvidence.Command.Ending {
    do throws(BreakerError) {
      switch random.number(0...9) {
      case 0: try breaker.trip(reason: text, scope: .fleet)
      case 1: try breaker.reset(reason: text, scope: .fleet)
      case 2...3:
        // The history does not say who changed a policy, so this one has no text to find.
        let value = String(random.number(3...9))
        try breaker.overridePolicy(set: [.maxFailures: value], unset: [], scope: .fleet)
        return .unknown
      default:
        let mode = random.pick([BreakerMode.automatic, .automatic, .observe, .forcedClosed])
        try breaker.force(mode, reason: text, scope: .fleet)
      }
      return .done
    } catch {
      if case .noRelay = error { return .refused }
      return .unknown
    }
  }

  /// Gives the last commands, which tell when a host has heard everything.
  func conclude(_ breakers: [Breaker]) throws {
    for breaker in breakers {
      let text = "\(name)-\(breaker.name)-last"
      try breaker.force(.forcedClosed, reason: text, scope: .fleet)
      journal.withLock { $0.append(FleetEvidence.Command(text, on: name, .done)) }
    }
  }
}

/// Its statements about other hosts.
extension FleetHost {
  /// Which hosts have carried out the latest commands to a breaker, as the relay says; empty without
  /// an answer.
  func confirmations(of name: String) -> [FleetConfirmations.Command] {
    guard let socket = try? UnixSocket.connect(to: path + "-relay.sock") else { return [] }
    defer { close(socket) }
    var limit = timeval(tv_sec: 2, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    unsafe setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    let bytes = Array((RelayStatus.Question.confirmations(of: name).words + "\n").utf8)
    guard unsafe send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
      return []
    }
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while case let count = unsafe recv(socket, &chunk, chunk.count, 0), count > 0 {
      answer += chunk[..<count]
    }
    let text = String(decoding: answer, as: UTF8.self)
    return (try? FleetConfirmations(document: text).commands) ?? []
  }

  /// The command about an aspect that the host follows.
  func latest(about aspect: String, of name: String) throws -> FleetCommand? {
    try store.fleetCommands(to: name).first { $0.aspect == aspect }?.command
  }
}

/// Its evidence after a phase.
extension FleetHost {
  func evidence() throws -> FleetEvidence.Host {
    var host = FleetEvidence.Host(name)
    host.events = try store.history().map { Self.event($0, skew) }
    host.waiting = try store.fleetStanding()?.waiting ?? 0
    host.integrity = try Database.integrity(path)
    let rows = try Database.rows(
      path,
      """
      SELECT breaker, aspect, stamp, host, action, mode, length_ns, policy_set, policy_unset, reason
      FROM fleet_command
      """)
    host.registers = Set(rows.map { $0.joined(separator: " ") })
    host.standing = Set(
      try store.snapshots().map { snapshot in
        "\(snapshot.name): \(snapshot.mode) '\(snapshot.modeReason ?? "")' \(snapshot.policy)"
      })
    return host
  }

  private static func isCommand(_ change: BreakerChange) -> Bool {
    switch change {
    case .mode, .reset: true
    default: false
    }
  }

  private static func event(_ entry: HistoryEntry, _ skew: Int) -> FleetEvidence.Event {
    let kind: FleetEvidence.Event.Kind =
      switch (entry.change.wireFrom, entry.change.wireTo) {
      case ("closed", "open"): .opened
      case ("half_open", "open"): .reopened
      case ("open", "extended"): .extended
      case ("closed", "half_open"): .suspected
      default: isCommand(entry.change) ? .command : .other
      }
    return FleetEvidence.Event(
      kind, of: entry.name, entry.reason ?? "", by: entry.host,
      at: entry.at.millisecondsSince1970 - Int64(skew) * 1_000)
  }
}

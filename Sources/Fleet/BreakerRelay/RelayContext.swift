@_spi(Relay) internal import ProgramKit
@_spi(Relay) package import SharedBreaker
internal import Synchronization

/// The parts of a relay that all others work with.
struct RelayContext: Sendable {
  let options: RelayOptions
  let store: SharedStore
  let keys: FleetKeys
  let health = RelayHealth()
  private let refusals = Refusals()
  let log: RelayLog
  let manager: ServiceManager

  /// Follows the primary that sentinels name; nil if the address has none.
  let sentinels: SentinelWatch?

  let course = RelayCourse()

  /// The users who have announced commands of this host.
  let givers = CommandGivers()

  /// The keys and hosts that this relay trusts.
  var authority: FleetAuthority { options.authority }

  /// Distinguishes this run of the relay from others on the same host.
  let run = String(UInt64.random(in: .min ... .max), radix: 16)

  /// When this run began.
  let began = ContinuousClock.now

  /// Raised when the relay has to end, and never lowered.
  let stop: WakePipe

  /// Called after each step that a crash could separate from the next one; for tests.
  let onStep: @Sendable (RelayStep) -> Void

  /// How long to wait for the server.
  static let patience = Duration.seconds(3)
}

/// The steps of a relay between which a crash may come.
package enum RelayStep: String, Sendable, CaseIterable {
  case claimed, connected, read, remembered, toldLost, toldEvidence, described
  case told, forgotten, listening, received, applied, beaten
}

/// Notes that one session passes to the next.
final class RelayCourse: Sendable {
  struct Notes: Sendable {
    /// The hosts of the fleet that have shown themselves, and when they were last heard from, in
    /// milliseconds of the server's clock.
    var hosts: [String: Int64] = [:]

    /// The commands that this host has dealt with.
    var heard = HeardCommands()

    /// The last known number of hosts in the fleet.
    var hostsSeen = 1

    /// Whether the log has said that this host's clock differs from the server's.
    var isSkewed = false

    /// The commands of other hosts that were refused here, by the names of their breakers.
    var refused: [String: RefusedCommand] = [:]
  }

  /// How many refused commands are remembered.
  private static let room = 1_000

  /// Notes that a command was refused; it replaces an earlier one to the same breaker.
  func refuse(_ command: RefusedCommand) {
    change { notes in
      if notes.refused[command.name] == nil, notes.refused.count >= Self.room { return }
      notes.refused[command.name] = command
    }
  }

  /// Notes that a command was not refused, which makes up for earlier ones to the same breaker.
  func accept(_ command: FleetCommand) {
    guard let known = now.refused[command.name], known.stamp <= command.stamp else { return }
    change { $0.refused[command.name] = nil }
  }

  private let notes = Mutex(Notes())

  var now: Notes { notes.withLock { $0 } }

  func change(_ body: @Sendable (inout Notes) -> Void) { notes.withLock { body(&$0) } }
}

/// The kinds of messages that were refused, so that each is reported once for each host.
private final class Refusals: Sendable {
  private struct Known: Hashable {
    var kind: Refusal.Kind
    var host: String?
  }

  private let known = Mutex<Set<Known>>([])

  /// How many are remembered, so that a server full of nonsense cannot fill the memory.
  private static let room = 1_000

  /// Notes a refusal; returns whether it is the first of its kind from its host.
  func note(_ refusal: Refusal) -> Bool {
    known.withLock { known in
      known.count < Self.room
        && known.insert(Known(kind: refusal.kind, host: refusal.host)).inserted
    }
  }
}

extension RelayContext {
  /// Whether the relay has to end.
  var isStopped: Bool { stop.isRaised }

  /// Counts a refused message, and reports it if it is the first of its kind from its host.
  func refuse(_ refusal: Refusal) {
    health.change { figures in
      figures.refused += 1
      if refusal.kind.isUnproven { figures.unproven += 1 }
    }
    // With a key, only a proven command is refused: every other one is as good as absent.
    if let command = refusal.command, !authority.isOn || refusal.kind == .authority {
      course.refuse(RefusedCommand(command, refusal.description))
    }
    guard refusals.note(refusal) else { return }
    let sender = refusal.host.map { "host \($0)" } ?? "an unknown host"
    log.report(
      .refused,
      "refused a message from \(sender): \(refusal.description); more like it are not reported")
  }

  /// Counts the results of news.
  func count(_ verdicts: [FleetVerdict], on news: [FleetNews]) {
    let applied = verdicts.count { $0 == .applied }
    health.change { $0.applied += Int64(applied) }
    for (verdict, piece) in zip(verdicts, news) {
      let command = piece.command
      guard case .refused(let why) = verdict else {
        if let command { course.accept(command) }
        continue
      }
      if let command { course.refuse(RefusedCommand(command, why)) }
      refuse(Refusal(.command, host: command?.host, why))
    }
  }
}

/// Why a relay cannot continue; it starts over, unless it has only just been started.
package enum RelayTrouble: Error, Sendable, Hashable {
  /// The store cannot be used.
  case store(StoreError)

  /// The store at this path belongs to this fleet, which is not the relay's.
  case otherFleet(String, String)

  /// The path has another store than before.
  case replaced(String)

  /// The server cannot be used.
  case redis(RedisError)

  /// The host has missed messages, so it has to read everything again.
  case behind(String)

  /// Another relay uses the name of this host.
  case nameTaken(String)

  /// The process lacks something that it needs.
  case system(String)
}

extension RelayTrouble {
  /// The server's answer to something makes no sense.
  static func unexpected(_ what: String) -> RelayTrouble { .redis(.unexpected(what)) }

  /// The trouble and what to do about it, in one line.
  package func words(for options: RelayOptions) -> String {
    switch self {
    case .store(let error): error.description
    case .otherFleet(let path, let fleet):
      "the store \(path) belongs to fleet \(fleet): use that one, or run"
        + " 'cbctl fleet leave' first"
    case .replaced(let path): "the store \(path) is another one now: starting over with it"
    case .redis(let error): "cannot use \(options.address): \(error)"
    case .behind(let why): "catching up with fleet \(options.fleet): \(why)"
    case .nameTaken(let host):
      "another cbrelay works as host \(host) of fleet \(options.fleet): give one of the two hosts"
        + " another name with --host or $SHARED_BREAKER_HOST"
    case .system(let words): words
    }
  }
}

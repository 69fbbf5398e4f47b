internal import Glibc
internal import ProgramKit
internal import JSONText
internal import SharedBreaker
internal import Synchronization

/// The log of a relay: a line for each change of its health.
package struct RelayLog: Sendable {
  /// The kinds of lines, for programs that read the log.
  package enum Kind: String, Sendable {
    case started, waiting, connected, catchingUp = "catching_up", problem, refused, overtaken
    case sentinels, ended
  }

  private let isJSON: Bool
  private let write: @Sendable (String) -> Void

  /// Creates a log; `write` gets whole lines.
  package init(isJSON: Bool, write: @escaping @Sendable (String) -> Void) {
    self.isJSON = isJSON
    self.write = write
  }

  package func report(_ kind: Kind, _ words: String) {
    guard isJSON else {
      write("cbrelay: \(OutsideText.visible(words))\n")
      return
    }
    let document = JSONValue.object([
      .init("at", .string(StoreClock.system.wallTime.description)),
      .init("event", .string(kind.rawValue)), .init("message", .string(words)),
    ])
    write(document.text + "\n")
  }
}

/// Reports about this process to systemd, sent as datagrams to `$NOTIFY_SOCKET`; see sd_notify(3).
final class ServiceManager: Sendable {
  private let socketPath: String?

  /// How often the process has to show that it still works; nil if systemd does not watch it.
  let watchdogInterval: Duration?
  private let shownAt = Mutex(ContinuousClock.now)

  init(environment: [String: String]) {
    socketPath = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    // Children inherit the variables, but are not watched.
    let isThis = environment["WATCHDOG_PID"].map { $0 == String(getpid()) } ?? true
    let limit = environment["WATCHDOG_USEC"].flatMap { Int64($0) }
    watchdogInterval = isThis ? limit.map { .microseconds($0 / 2) } : nil
  }

  /// Shows that the process still works, if that is due.
  func showLife() {
    guard let watchdogInterval else { return }
    let isTime = shownAt.withLock { shownAt in
      guard shownAt + watchdogInterval / 2 <= .now else { return false }
      shownAt = .now
      return true
    }
    if isTime { tell("WATCHDOG=1") }
  }

  func tell(_ words: String) {
    guard let socketPath,
      let address = SocketAddress(path: socketPath, mayBeAbstract: true)
    else { return }
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    // The process goes on if the service manager does not listen.
    address.send(Array(words.utf8), over: descriptor)
  }
}

/// The health of a relay; the relay's thread writes it, and the status is made from it.
final class RelayHealth: Sendable {
  struct Figures: Sendable {
    var isConnected = false
    var since: BreakerTimestamp?
    var problem: String?

    /// How long the latest message took to arrive, in milliseconds; 0 once all have been read.
    var lag: Int64?
    var applied: Int64 = 0
    var refused: Int64 = 0

    /// How many of these were not signed with a key of the fleet.
    var unproven: Int64 = 0

    /// By how many milliseconds this host's clock is ahead of the server's; nil if that is unknown.
    var skew: Int64?
  }

  private let figures = Mutex(Figures())

  var now: Figures { figures.withLock { $0 } }

  func change(_ body: @Sendable (inout Figures) -> Void) { figures.withLock { body(&$0) } }

  /// Notes whether the relay is connected, and returns whether that or the problem has changed.
  func note(isConnected: Bool, problem: String?, at time: BreakerTimestamp) -> Bool {
    figures.withLock { figures in
      guard figures.isConnected != isConnected || figures.problem != problem else { return false }
      if figures.isConnected != isConnected { figures.since = time }
      figures.isConnected = isConnected
      figures.problem = problem
      return true
    }
  }
}

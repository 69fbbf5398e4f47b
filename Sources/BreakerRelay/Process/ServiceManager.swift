internal import Glibc
internal import Synchronization

/// What systemd is told about this process, by datagrams to `$NOTIFY_SOCKET`; see sd_notify(3).
final class ServiceManager: Sendable {
  private let socketPath: String?

  /// How often the process has to show that it still works; nil if nobody watches it.
  let watchdogInterval: Duration?
  private let shownAt = Mutex(ContinuousClock.now)

  init(environment: [String: String]) {
    socketPath = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    // The variables also reach children, which nobody watches.
    let isThis = environment["WATCHDOG_PID"].map { $0 == String(getpid()) } ?? true
    let limit = environment["WATCHDOG_USEC"].flatMap { Int64($0) }
    watchdogInterval = isThis ? limit.map { .microseconds($0 / 2) } : nil
  }

  /// Shows that the process still works, if it is time to.
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
    guard let socketPath, let address = SocketAddress(path: socketPath) else { return }
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    // A service manager that does not listen is no reason to stop working.
    address.send(Array(words.utf8), over: descriptor)
  }
}

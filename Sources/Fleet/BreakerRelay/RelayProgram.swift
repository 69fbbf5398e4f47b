internal import ProgramKit
@unsafe @preconcurrency internal import Glibc

/// The program `cbrelay`.
package enum RelayProgram {
  /// How long the relay may take to end after a signal, before the process ends without it.
  private static let grace = Duration.seconds(5)

  /// Carries out the command line, and ends the process.
  package static func run() -> Never {
    let request: RelayRequest
    do throws(UsageError) {
      request = try RelayRequest(
        arguments: try words(), environment: environment(), hostName: ThisProcess.hostName() ?? "")
    } catch {
      say("cbrelay: \(error)\n")
      exit(64)
    }
    // A reader may close the pipe, and a store that may not grow is an ordinary error.
    for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
    switch request {
    case .help: end(afterPrinting: RelayHelp.page)
    case .version: end(afterPrinting: RelayHelp.version)
    case .check(let options):
      let check = RelayCheck(options)
      end(afterPrinting: check.lines.map { $0 + "\n" }.joined(), with: check.isWell ? 0 : 69)
    case .run(let options): relay(options)
    }
    exit(0)
  }

  /// Prints a text and ends the process; failing to print is a failure.
  private static func end(afterPrinting text: String, with code: Int32 = 0) -> Never {
    guard let problem = ThisProcess.write(text, to: STDOUT_FILENO), problem != EPIPE else {
      exit(code)
    }
    say(
      "cbrelay: cannot write to standard output: \(SystemError.text(problem)): free some space, or"
        + " print elsewhere\n")
    exit(code == 0 ? 1 : code)
  }

  private static func relay(_ options: RelayOptions) {
    // Blocked before any thread starts, so that the thread below receives them.
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    for number in [SIGTERM, SIGINT, SIGHUP] { unsafe sigaddset(&signals, number) }
    unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    let log = RelayLog(isJSON: options.isJSON) { say($0) }
    do throws(RelayTrouble) {
      let relay = try Relay(options, environment: environment(), log: log)
      let waited = signals
      let waiting = BackgroundThread {
        var waited = waited
        var number: Int32 = 0
        unsafe sigwait(&waited, &number)
        relay.stop()
        // Looking up the name of a server can take longer than an operator wants to wait.
        var pause = timespec(tv_sec: Int(grace.components.seconds), tv_nsec: 0)
        unsafe nanosleep(&pause, nil)
        exit(0)
      }
      guard waiting != nil else { throw .system("no thread is left") }
      try relay.run()
    } catch {
      log.report(.problem, error.words(for: options))
      exit(69)
    }
  }
}

/// The surroundings of the process.
extension RelayProgram {
  private static func words() throws(UsageError) -> [String] {
    try ThisProcess.arguments().map { word throws(UsageError) in
      guard let text = String(validating: word, as: UTF8.self) else {
        throw UsageError("an argument is not UTF-8", "use UTF-8")
      }
      return text
    }
  }

  private static let variables = [
    "SHARED_BREAKER_REDIS", "SHARED_BREAKER_REDIS_PASSWORD", "SHARED_BREAKER_REDIS_CA_FILE",
    "SHARED_BREAKER_REDIS_CLIENT_CERT_FILE", "SHARED_BREAKER_REDIS_CLIENT_KEY_FILE",
    "SHARED_BREAKER_REDIS_SENTINEL_USER", "SHARED_BREAKER_REDIS_SENTINEL_PASSWORD",
    "SHARED_BREAKER_FLEET", "SHARED_BREAKER_FLEET_KEY_FILE", "SHARED_BREAKER_FLEET_UNSIGNED",
    "SHARED_BREAKER_FLEET_OBEY", "SHARED_BREAKER_HOST", "NOTIFY_SOCKET", "WATCHDOG_USEC",
    "WATCHDOG_PID",
  ]

  private static func environment() -> [String: String] {
    var values: [String: String] = [:]
    for name in variables {
      guard let value = unsafe getenv(name) else { continue }
      values[name] = unsafe String(cString: value)
    }
    return values
  }

  /// Prints a message, and ignores errors: a log without a reader must not stop the relay.
  private static func say(_ text: String) { _ = ThisProcess.write(text, to: STDERR_FILENO) }
}

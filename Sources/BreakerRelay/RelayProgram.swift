internal import CArguments
internal import ProgramKit
@unsafe @preconcurrency internal import Glibc

/// The program `cbrelay`.
package enum RelayProgram {
  /// How long the relay may take to end after a signal, before the process ends without it.
  private static let grace = Duration.seconds(5)

  /// Does what the command line asks for, and ends the process.
  package static func run() -> Never {
    let request: RelayRequest
    do throws(UsageError) {
      request = try RelayRequest(
        arguments: try words(), environment: environment(), hostName: hostName())
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

  /// Prints a text and ends the process; a text that does not arrive is a failure.
  private static func end(afterPrinting text: String, with code: Int32 = 0) -> Never {
    let problem = write(text, to: STDOUT_FILENO)
    guard problem != 0, problem != EPIPE else { exit(code) }
    say(
      "cbrelay: cannot write to standard output: \(SystemError.text(problem)): free some space, or"
        + " print elsewhere\n")
    exit(code == 0 ? 1 : code)
  }

  private static func relay(_ options: RelayOptions) {
    // Blocked before any thread begins, so that the thread below gets them.
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
        // The name of a server may take longer to look up than anybody wants to wait.
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
    var words: [String] = []
    for index in 1..<max(1, Int(sb_argument_count())) {
      guard let word = unsafe sb_arguments()[index] else { break }
      guard let text = unsafe String(validatingCString: word) else {
        throw UsageError("an argument is not UTF-8", "use UTF-8")
      }
      words.append(text)
    }
    return words
  }

  private static let variables = [
    "SHARED_BREAKER_REDIS", "SHARED_BREAKER_REDIS_PASSWORD", "SHARED_BREAKER_FLEET",
    "SHARED_BREAKER_HOST", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
  ]

  private static func environment() -> [String: String] {
    var values: [String: String] = [:]
    for name in variables {
      guard let value = unsafe getenv(name) else { continue }
      values[name] = unsafe String(cString: value)
    }
    return values
  }

  private static func hostName() -> String {
    var name = [CChar](repeating: 0, count: 256)
    guard unsafe gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Prints a message; who does not read it is no reason to stop working.
  private static func say(_ text: String) { _ = write(text, to: STDERR_FILENO) }

  /// Writes a text, and returns the system's error number; 0 if all is written.
  private static func write(_ text: String, to descriptor: Int32) -> Int32 {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { bytes in
        unsafe Glibc.write(descriptor, bytes.baseAddress, bytes.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : EIO }
      rest = rest.dropFirst(count)
    }
    return 0
  }
}

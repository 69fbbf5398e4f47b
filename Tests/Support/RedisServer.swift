package import Glibc

/// A Redis server of one test, on a Unix socket in the test's directory.
package final class RedisServer {
  private let directory: TemporaryDirectory
  private let options: [String]
  private let launcher: [String]
  private var child: Child?

  /// The path of the server's socket.
  package let socket: String

  /// Debian's server, unless a variable names another one.
  private static let program =
    unsafe getenv("SHARED_BREAKER_SERVER").map { unsafe String(cString: $0) }
    ?? "/usr/bin/redis-server"
  private static let client = "/usr/bin/redis-cli"

  /// Whether there is a server, and Debian's `redis-cli` to ask it.
  package static let isInstalled = Files.exists(program) && Files.exists(client)

  /// Whether the server has users with rights of their own, as Redis has since version 6.
  package static let hasUsers = (try? Child.run(program, ["--version"]))?.contains(" v=5.") == false

  /// Starts a server, and waits until it answers.
  ///
  /// - Parameters:
  ///   - directory: Where its files are.
  ///   - name: The name of its socket there.
  ///   - options: What it is started with besides.
  ///   - launcher: What to begin its command with.
  /// - Throws: If it cannot be started.
  package init(
    in directory: TemporaryDirectory, name: String = "redis.sock", options: [String] = [],
    launcher: [String] = []
  ) throws {
    self.directory = directory
    self.options = options
    self.launcher = launcher
    socket = directory.file(name)
    try start()
  }

  /// The address as `--redis` takes it.
  package var address: String { "unix://\(socket)" }

  /// The number of the process.
  package var pid: pid_t { child?.pid ?? 0 }

  /// Starts the server again after ``kill()``, with what it has saved.
  package func start() throws {
    let words = [
      "--port", "0", "--unixsocket", socket, "--dir", directory.path, "--save", "",
      "--dbfilename", "\(socket.split(separator: "/").last ?? "redis").rdb", "--daemonize", "no",
      "--loglevel", "warning", "--logfile", socket + ".log",
    ]
    let all = launcher + [Self.program] + words + options
    child = try Child(all[0], Array(all.dropFirst()))
    for _ in 0..<60_000 {
      usleep(1_000)
      guard Files.exists(socket) else { continue }
      let answer = try? command("PING")
      if answer == "PONG" || answer?.contains("NOAUTH") == true { return }
    }
    throw SupportError("the server \(socket) does not answer")
  }

  /// Ends the server at once; what it has not saved is lost.
  package func kill() {
    child?.kill()
    child = nil
    Files.removeAll(socket)
  }

  /// Stops the server where it is, so that it accepts connections but never answers.
  package func stop() { child?.stop() }

  package func resume() { child?.resume() }

  /// Sends a command, and returns the answer as redis-cli prints it.
  @discardableResult
  package func command(_ words: String...) throws -> String {
    let output = try Child.run(Self.client, ["-s", socket] + words)
    return String(output.reversed().drop(while: \.isWhitespace).reversed())
  }
}

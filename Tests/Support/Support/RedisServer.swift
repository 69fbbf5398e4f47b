package import Glibc

/// A Redis server of one test, on a Unix socket in the test's directory.
package final class RedisServer {
  private let directory: TemporaryDirectory
  private let options: [String]
  private let launcher: [String]

  /// The file that the server may change; sentinels need one.
  private let configuration: String?
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

  /// Whether the server speaks TLS, as Redis can since version 6.
  package static let hasTLS = isInstalled && hasUsers && isBuiltWithTLS

  private static var isBuiltWithTLS: Bool {
    // One that knows the option finds no certificate; another one does not understand it.
    let words = ["--port", "0", "--tls-port", "1", "--tls-cert-file", "/"]
    let child = try? Child(program, words, hasWords: true)
    return (try? child?.rest())?.contains("configure TLS") == true
  }

  /// Starts a server, and waits until it answers.
  ///
  /// - Parameters:
  ///   - directory: Where its files are.
  ///   - name: The name of its socket there.
  ///   - options: Further options of the server.
  ///   - launcher: The words before its command.
  ///   - configuration: A file that the server reads first, and may change.
  /// - Throws: If it cannot be started.
  package init(
    in directory: TemporaryDirectory, name: String = "redis.sock", options: [String] = [],
    launcher: [String] = [], configuration: String? = nil
  ) throws {
    self.directory = directory
    self.options = options
    self.launcher = launcher
    self.configuration = configuration
    socket = directory.file(name)
    try start()
  }

  /// The address as `--redis` takes it.
  package var address: String { "unix://\(socket)" }

  /// The number of the process.
  package var pid: pid_t { child?.pid ?? 0 }

  /// Starts the server again after ``kill()``, with its saved data.
  package func start() throws {
    let words =
      (configuration.map { [$0] } ?? []) + [
        "--port", "0", "--unixsocket", socket, "--dir", directory.path, "--save", "",
        "--dbfilename", "\(socket.split(separator: "/").last ?? "redis").rdb", "--daemonize", "no",
        "--loglevel", "warning", "--logfile", socket + ".log",
      ]
    let all = launcher + [Self.program] + words + options
    let child = try Child(all[0], Array(all.dropFirst()))
    self.child = child
    for _ in 0..<60_000 {
      usleep(1_000)
      if child.hasEnded { throw SupportError("the server \(socket) does not start: see its log") }
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
  package func command(_ words: String...) throws -> String { try command(words: words) }

  @discardableResult
  package func command(words: [String]) throws -> String {
    let output = try Child.run(Self.client, ["-s", socket] + words)
    return String(output.reversed().drop(while: \.isWhitespace).reversed())
  }
}

extension RedisServer {
  /// Starts a server that replicas can reach as well, by a port of the loopback interface.
  ///
  /// The server cannot choose a free port itself, and another process may take one that was free a
  /// moment ago, so this tries others.
  ///
  /// - Parameters:
  ///   - directory: Where its files are.
  ///   - name: The name of its socket there.
  /// - Returns: The server and its port.
  /// - Throws: If it cannot be started at several ports.
  package static func primary(
    in directory: TemporaryDirectory, name: String
  ) throws -> (server: RedisServer, port: String) {
    try atPort(in: directory, name: name) {
      ["--port", $0, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
    }
  }

  /// Starts a server with options that depend on a port.
  package static func atPort(
    in directory: TemporaryDirectory, name: String, configuration: String? = nil,
    options: (String) -> [String]
  ) throws -> (server: RedisServer, port: String) {
    var problem: any Error = SupportError("no port is free")
    for _ in 0..<20 {
      let port = String(try freePort())
      do {
        let server = try RedisServer(
          in: directory, name: name, options: options(port), configuration: configuration)
        return (server, port)
      } catch {
        problem = error
      }
    }
    throw problem
  }

  /// Starts a server that speaks TLS at a port of the loopback interface.
  package static func encrypted(
    in directory: TemporaryDirectory, name: String = "redis.sock", certificate: String,
    key: String, authorities: String, wantsCertificates: Bool = false, options: [String] = []
  ) throws -> (server: RedisServer, port: UInt16) {
    let (server, port) = try atPort(in: directory, name: name) { port in
      [
        "--tls-port", port, "--bind", "127.0.0.1", "--tls-cert-file", certificate,
        "--tls-key-file", key, "--tls-ca-cert-file", authorities, "--tls-auth-clients",
        wantsCertificates ? "yes" : "no",
      ] + options
    }
    guard let number = UInt16(port) else { throw SupportError("port \(port)") }
    return (server, number)
  }

  /// A port of the loopback interface that is not in use at this moment.
  private static func freePort() throws -> UInt16 {
    let probe = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard probe >= 0 else { throw SupportError("socket", errno) }
    defer { close(probe) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(probe, $0, size) == 0 ? unsafe getsockname(probe, $0, &size) : -1
      }
    }
    guard code == 0 else { throw SupportError("bind 127.0.0.1", errno) }
    return UInt16(bigEndian: address.sin_port)
  }
}

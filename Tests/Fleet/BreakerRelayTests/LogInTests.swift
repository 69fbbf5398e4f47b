import BreakerRelay
import TestSupport
import Testing

/// Logging in to a real server.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: RedisServer.hasUsers, "the server has no users"))
struct LogInTests {
  private let directory: TemporaryDirectory
  private let server: RedisServer

  init() throws {
    directory = try TemporaryDirectory()
    server = try RedisServer(
      in: directory, options: ["--requirepass", "geheim", "--databases", "2"])
  }

  private func connect(
    user: String? = nil, password: String?, database: Int = 0
  ) throws -> RedisReply {
    let address = RedisAddress(
      .socket(path: server.socket), user: user, password: password, database: database)
    let connection = try RedisConnection(to: address, patience: .seconds(60))
    return try connection.ask(["PING"])
  }

  private func error(
    user: String? = nil, password: String?, database: Int = 0
  ) -> String? {
    #expect(throws: RedisError.self) {
      try connect(user: user, password: password, database: database)
    }?.description
  }

  @Test(.timeLimit(.minutes(60)))
  func `the right password and database are accepted`() throws {
    #expect(try connect(password: "geheim").text == "PONG")
    #expect(try connect(user: "default", password: "geheim", database: 1).text == "PONG")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a failed login says what to do`() throws {
    #expect(error(password: nil)?.hasPrefix("it wants a password: use --password-file") == true)
    #expect(error(password: "x") == "it refuses the user or the password: check them")
    #expect(error(user: "u", password: "geheim") == error(password: "x"))
    #expect(error(password: "geheim", database: 2)?.hasPrefix("it has no database 2") == true)
    #expect(error(password: "geheim\u{0}\r\n") == error(password: "x"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a check says what is wrong with the server`() throws {
    var options = RelayOptions(
      address: RedisAddress(.socket(path: server.socket)), fleet: "f", host: "a",
      store: directory.store)
    #expect(!RelayCheck(options).isWell)
    options.address.password = "geheim"
    let check = RelayCheck(options)
    #expect(check.isWell, "\(check.lines)")
    #expect(check.lines.first?.hasPrefix("ok: no store yet at ") == true)
    #expect(!Files.exists(directory.store))
    options.address.place = .socket(path: directory.file("none"))
    #expect(RelayCheck(options).lines.last?.hasPrefix("problem: cannot use unix:///") == true)
  }
}

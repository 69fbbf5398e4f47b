import BreakerRelay
import TestSupport
import Testing

/// A connection to a server that does not behave.
struct StrangeServerTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// The error of connecting to a fake server and asking it something.
  private func error(
    _ manner: FakeServer.Manner, patience: Duration = .seconds(60)
  ) throws -> RedisError? {
    let server = try FakeServer(in: directory, manner)
    defer { server.stop() }
    let address = RedisAddress(.socket(path: server.path))
    return #expect(throws: RedisError.self) {
      let connection = try RedisConnection(to: address, patience: patience)
      _ = try connection.ask(["PING"])
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that closes in the middle of an answer is an error`() throws {
    for bytes in ["", "+", "+OK\r\n*3\r\n$5\r\nab", "$100\r\n", "*2\r\n"] {
      let error = try error(.sendAndClose(Array(bytes.utf8)))
      #expect(error != nil)
      Files.removeAll(directory.file("fake.sock"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that answers nonsense is an error`() throws {
    for bytes in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0", "*-7\r\n", "$x\r\n", ":\r\n:"] {
      let error = try error(.send(Array(bytes.utf8)), patience: .milliseconds(500))
      #expect(error != nil)
      Files.removeAll(directory.file("fake.sock"))
    }
    let error = try error(.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)))
    #expect(error?.description == "it does not speak the protocol of Redis")
  }

  @Test(.timeLimit(.minutes(60)))
  func `an answer that announces too much is refused before it arrives`() throws {
    let nested = "*400000\r\n" + String(repeating: "*400000\r\n", count: 3)
    for text in ["*2000000000\r\n", "*1000001\r\n", "*2\r\n:1\r\n*1000000\r\n", nested] {
      let error = try error(.send(Array(text.utf8)))
      #expect(error == .tooLong, "\(text.prefix(20))")
      Files.removeAll(directory.file("fake.sock"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that never finishes its answer is too late`() throws {
    let long = Array("*1000000\r\n".utf8) + Array(repeating: UInt8(ascii: ":"), count: 1_000_000)
    let error = try error(.drip(long), patience: .milliseconds(300))
    #expect(error?.description == "it has not answered for 300ms")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a password that the server repeats in its answer gets into no message`() throws {
    let answer = "-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n"
    let server = try FakeServer(in: directory, .send(Array(answer.utf8)))
    defer { server.stop() }
    let address = RedisAddress(.socket(path: server.path), password: "hunter2")
    let error = #expect(throws: RedisError.self) {
      try RedisConnection(to: address, patience: .seconds(60))
    }
    #expect(error?.description.contains("hunter2") == false)
  }

  @Test(arguments: [
    ("OOM command not allowed when used memory > 'maxmemory'.", "its memory is full"),
    (
      "ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write",
      "it is a read-only replica"
    ),
    (
      "ERR The user executing the script can't run this command or subcommand script: f1, on"
        + " @user_script:1.", "its user may not do this"
    ),
    (
      "ERR The user executing the script can't access at least one of the keys mentioned in the"
        + " command arguments script: f1, on @user_script:1.", "its user may not do this"
    ),
    ("ERR unknown command 'XADD', with args beginning with: 'a' ", "it does not know XADD: use"),
    ("ERR unknown command `XADD`, with args beginning with: `a`, ", "it does not know XADD: use"),
    (
      "ERR Unknown Redis command called from script script: f1, on @user_script:1.",
      "it does not know a command of the relay's scripts: use"
    ),
    (
      "ERR Unknown command called from script script: on @user_script:1.",
      "it does not know a command of the relay's scripts: use"
    ),
    (
      "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Unknown Redis command"
        + " called from Lua script", "it does not know a command of the relay's scripts: use"
    ),
    ("ERR something new", "it answers 'ERR something new'"),
  ])
  func `an answer that is an error is explained`(answer: String, words: String) {
    #expect(RedisError(answer: answer).description.hasPrefix(words))
  }

  @Test func `a missing server is an error`() throws {
    let address = RedisAddress(.socket(path: directory.file("none.sock")))
    let error = #expect(throws: RedisError.self) {
      try RedisConnection(to: address, patience: .seconds(1))
    }
    #expect(
      error?.description
        == "No such file or directory: check the address, and whether the server runs")
  }
}

import BreakerRelay
import Glibc
import SharedBreaker
import Synchronization
import TestSupport
import Testing

/// A fleet whose relay dies.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct CrashTests {
  @Test(.timeLimit(.minutes(60)), arguments: RelayStep.allCases)
  func `a relay that is killed after a step loses nothing and repeats nothing`(
    step: RelayStep
  ) async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    let b = try TestHost("b", as: "b", in: fleet.directory, address: fleet.server.address)
    try b.give { try $0.breaker("mail").force(.forcedOpen, reason: "from b", scope: .fleet) }
    try b.breaker("db", sharedPolicy).trip()
    try a.breaker("pay").force(.observe, reason: "from a", scope: .fleet)
    try await eventually("a has told its command") { try a.store.fleetStanding()?.waiting == 0 }
    // Host a goes on talking until b's relay is dead, so that b has something to hear.
    let talking = Talking(of: a)
    await #expect(processExitsWith: .signal(SIGKILL)) {
      [
        address = fleet.server.address as String, path = b.options.store as String?,
        last = step.rawValue as String
      ] in
      let options = RelayOptions(
        address: try RedisAddress(address), fleet: "test", host: "b", store: path)
      let relay = try Relay(options, log: RelayLog(isJSON: false) { _ in }) { step in
        if step.rawValue == last { kill(getpid(), SIGKILL) }
      }
      _ = try relay.run()
    }
    let lastWord = try talking.end()
    b.start()
    try await eventually("b knows what a said last") {
      try b.snapshot("talk")?.modeReason == lastWord
    }
    try await eventually("a knows b's command") { try a.snapshot("mail")?.mode == .forcedOpen }
    try await eventually("nothing waits") { try b.store.fleetStanding()?.waiting == 0 }
    for (host, name) in [(a, "mail"), (b, "mail"), (a, "pay"), (b, "pay")] {
      let changes = try host.store.history(of: name).count { $0.change.wireKind == "mode" }
      #expect(changes == 1, "\(name) on \(host.options.host)")
    }
    try await eventually("b's evidence is known") {
      try fleet.server.command("HKEYS", "sb:{test}:evidence") == "db\nb"
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the second of two relays on a host waits, and takes over when the first is killed`()
    async throws
  {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    let words = [
      "--redis", fleet.server.address, "--fleet", "test", "--host", "b", "--store",
      fleet.directory.file("b.db"),
    ]
    let program = BuiltProducts.path(of: "cbrelay")
    let first = try Child(program, words, hasWords: true)
    #expect(try first.line()?.hasPrefix("cbrelay: started: ") == true)
    #expect(try first.line()?.hasPrefix("cbrelay: connected to ") == true)
    let second = try Child(program, words, hasWords: true)
    #expect(try second.line()?.hasPrefix("cbrelay: started: ") == true)
    #expect(try second.line()?.hasPrefix("cbrelay: waiting: another cbrelay works on ") == true)
    first.kill()
    #expect(try second.line()?.hasPrefix("cbrelay: connected to ") == true)
    try a.breaker("pay").force(.observe, scope: .fleet)
    let store = SharedStore(path: fleet.directory.file("b.db"))
    try await eventually("b observes") { try store.snapshot(of: "pay")?.mode == .observe }
    kill(second.pid, SIGTERM)
    #expect(try second.line() == "cbrelay: ended")
    #expect(second.waitForEnd() == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `two stores cannot work under the same name`() async throws {
    let fleet = try TestFleet()
    let first = try await fleet.host("one", as: "a")
    let second = try TestHost("two", as: "a", in: fleet.directory, address: fleet.server.address)
    second.start()
    try await second.awaits(.problem)
    #expect(second.log.contains { $0.contains("another cbrelay works as host a of fleet test") })
    #expect(second.count(.connected) == 0)
    first.stop()
    try await second.awaits(.connected)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay whose host was copied gives up the name, and says so once`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    let lineage = try a.store.lineage()
    var copy = words(of: lineage)
    try show(copy, in: fleet)
    try await a.awaits(.problem)
    #expect(a.log.contains { $0.contains("another cbrelay works as host a") })
    let beats = try beats(of: fleet)
    try await eventually("a has tried again") {
      // The copy goes on, however long that takes.
      #expect(try fleet.server.command("HGET", "sb:{test}:host:a", "") == copy)
      copy = words(of: lineage)
      try show(copy, in: fleet)
      return try self.beats(of: fleet) >= beats + 3
    }
    #expect(a.count(.connected) == 1)
    try fleet.server.command("HDEL", "sb:{test}:host:a", "")
    try await a.awaits(.connected, times: 2)
    #expect(a.count(.problem) == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a check notices that a relay of another store has the name of its host`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    #expect(RelayCheck(a.options).isWell)
    var options = a.options
    try show(words(of: try a.store.lineage()), in: fleet)
    #expect(RelayCheck(options).isWell)
    try show(words(of: "1"), in: fleet)
    let problem =
      "problem: another cbrelay works as host a of fleet test: give one of the two hosts another"
      + " name with --host or $SHARED_BREAKER_HOST"
    #expect(RelayCheck(options).lines.last == problem)
    options.store = fleet.directory.file("none.db")
    #expect(RelayCheck(options).lines.last == problem)
    // If the store cannot be read, the relay with its name may be the store's own.
    options.store = fleet.directory.file("damaged.db")
    try Files.write(fleet.directory.file("damaged.db"), Array("this is no database at all".utf8))
    #expect(!RelayCheck(options).isWell)
    #expect(!RelayCheck(options).lines.contains(problem))
    options.store = fleet.directory.file("none.db")
    options.host = "b"
    #expect(RelayCheck(options).isWell)
    options.store = "/dev/null/breakers.db"
    #expect(!RelayCheck(options).isWell)
  }

  /// The mark of another run of a relay, which is not silent for half a minute.
  private func words(of lineage: String) -> String {
    let soon = StoreClock.system.wallTime.millisecondsSince1970 + 14_000
    return #"{"run":"abc","lineage":"\#(lineage)","sent":\#(soon)}"#
  }

  /// Lets another relay use the name of host a.
  private func show(_ description: String, in fleet: TestFleet) throws {
    let script =
      "redis.call('HSET', KEYS[1], '', ARGV[1]); redis.call('ZADD', KEYS[2], '1e15', 'a')"
    try fleet.server.command(
      "EVAL", script, "2", "sb:{test}:host:a", "sb:{test}:hosts", description)
  }

  /// How often a script was run on a server, as every attempt to use a name does.
  private func beats(of fleet: TestFleet) throws -> Int {
    let lines = try fleet.server.command("INFO", "commandstats")
    let count = lines.firstMatch(of: /cmdstat_evalsha:calls=([0-9]+)/).flatMap { Int($0.1) }
    return try #require(count)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay that ends leaves alone what another relay of its host has written`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    try show(words(of: "1"), in: fleet)
    a.stop()
    #expect(try fleet.server.command("EXISTS", "sb:{test}:host:a") == "1")
    #expect(try fleet.server.command("ZSCORE", "sb:{test}:hosts", "a") != "")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host whose relay ends normally is not silent`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    hosts[1].stop()
    let figures = try StatusClient.ask("figures", of: hosts[0])
    #expect(figures.contains(#""host":"a""#))
    #expect(!figures.contains(#""host":"b""#))
    #expect(try fleet.server.command("HGET", "sb:{test}:host:b", "").contains(#""left":true"#))
  }
}

/// A host that gives commands until it is told to end.
private final class Talking {
  private final class Words: Sendable {
    let isOver = Mutex(false)
    let last = Mutex("")
  }

  private let words = Words()
  private let threads = Threads()

  init(of host: TestHost) {
    threads.start { [words] in
      var number = 0
      while !words.isOver.withLock({ $0 }) {
        number += 1
        let mode = number % 2 == 0 ? BreakerMode.observe : .forcedClosed
        let word = "word \(number)"
        guard (try? host.breaker("talk").force(mode, reason: word, scope: .fleet)) != nil else {
          continue
        }
        words.last.withLock { $0 = word }
        usleep(20_000)
      }
    }
  }

  /// Ends the host, and returns the reason of the last command.
  func end() throws -> String {
    words.isOver.withLock { $0 = true }
    threads.join()
    return words.last.withLock { $0 }
  }
}

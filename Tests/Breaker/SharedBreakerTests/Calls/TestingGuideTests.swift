import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// The examples of the guide "Testing Your Policy", exactly as the guide prints them.
@Suite(.timeLimit(.minutes(60))) struct TestingGuideTests {
  @Test func `every example of the testing guide is in this file`() throws {
    let root = #filePath.split(separator: "/").dropLast(5).joined(separator: "/")
    let guide = try Self.text(
      "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/TestingYourPolicy.md")
    let tests = Self.lines(of: try Self.text(#filePath)).joined(separator: "\n")
    let examples = guide.split(separator: "```swift\n").dropFirst().compactMap {
      $0.split(separator: "```").first.map { Self.lines(of: String($0)) }
    }.filter { $0.first?.hasPrefix(".testTarget") == false }
    #expect(examples.count == 10)
    for example in examples {
      #expect(tests.contains(example.joined(separator: "\n")), "\(example[0])")
    }
  }

  private static func text(_ path: String) throws -> String {
    String(decoding: try Files.read(path), as: UTF8.self)
  }

  /// The lines of a text without indentation, empty lines and imports.
  private static func lines(of text: String) -> [String] {
    text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
      .filter { !$0.isEmpty && !$0.hasPrefix("import ") }
  }

  @Test func `an outage pages once, however many processes run the hook`() async throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    let (pages, pager) = AsyncStream.makeStream(of: String.self)
    try host.store().registerHook("pager")
    let workers = (0..<3).map { _ in
      let store = host.process().store()
      return Task {
        await store.handleHistory(as: "pager") { if $0.beginsOutage { pager.yield($0.name) } }
      }
    }
    try? await breaker.run { throw ServiceDown() }
    var iterator = pages.makeAsyncIterator()
    #expect(await iterator.next() == "api")
    host.clock.advance(by: .seconds(30))
    try? await breaker.run { throw ServiceDown() }
    try breaker.reset()
    for worker in workers { worker.cancel() }
    for worker in workers { await worker.value }
    pager.finish()
    #expect(await iterator.next() == nil)
  }

  @Test func `a page that cannot be sent is sent again a second later`() async throws {
    let host = TestHost()
    let store = host.store()
    let (pages, pager) = AsyncStream.makeStream(of: Int64.self)
    try store.registerHook("pager")
    let worker = Task {
      await store.handleHistory(as: "pager") { entry in
        pager.yield(entry.id)
        if host.clock.now.offset == .zero { throw ServiceDown() }
      }
    }
    try store.breaker("api").trip()
    var iterator = pages.makeAsyncIterator()
    let first = await iterator.next()
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    host.clock.advance(by: .seconds(1))
    #expect(await iterator.next() == first)
    worker.cancel()
    await worker.value
  }

  @Test func `the service is asked again after half a minute`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
    for _ in 0..<2 { try? breaker.run { throw ServiceDown() } }
    #expect(breaker.state == .open)
    host.clock.advance(by: .seconds(30))
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `a call is tried again after a second`() async throws {
    let host = TestHost()
    let client = Client(breaker: try host.store().breaker("api"))
    let answer = Task { try await client.fetch() }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    host.clock.advance(by: .seconds(1))
    #expect(try await answer.value == "fresh")
  }

  @Test func `a call is tried again after a second, give or take a fifth`() async throws {
    let host = TestHost()
    let client = Client(breaker: try host.store().breaker("api"), jitter: 0.2)
    let answer = Task { try await client.fetch() }
    let wait = try await host.clock.untilSomebodySleeps(for: .seconds(0.8)...(.seconds(1.2)))
    host.clock.advance(by: wait)
    #expect(try await answer.value == "fresh")
  }

  @Test func `a caller is freed at its deadline`() async throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api")
    let work = HungWork()
    let neverEnding = { @Sendable in await work.hang() }
    let call = Task { try await breaker.run(timeout: .seconds(2)) { await neverEnding() } }
    try await host.clock.untilSomebodySleeps(for: .seconds(2))
    host.clock.advance(by: .seconds(2))
    await #expect(throws: CallTimedOut.self) { try await call.value }
    work.release()
  }

  @Test func `two processes have to fail before the breaker opens`() throws {
    let host = TestHost()
    let policy = BreakerPolicy(maxFailures: 3, reporters: 2)
    let first = try host.process().store().breaker("api", policy: policy)
    let second = try host.process().store().breaker("api", policy: policy)
    for _ in 0..<10 { try? first.run { throw ServiceDown() } }
    #expect(first.state == .closed)
    try? second.run { throw ServiceDown() }
    #expect(first.state == .open)
  }

  @Test func `a prober that is killed leaves its slot to the next caller`() throws {
    let host = TestHost()
    let prober = host.process(program: "prober")
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    try breaker.trip(for: .seconds(30))
    host.clock.advance(by: .seconds(30))
    let permit = try prober.store().breaker("api").acquire()
    #expect(throws: BreakerError.self) { try breaker.run {} }
    prober.kill()
    try breaker.run {}
    #expect(breaker.state == .closed)
    let verdict = permit.succeed()
    #expect(verdict == .refused)
  }

  @Test func `calls go on while the disk is full`() throws {
    let host = TestHost()
    let store = host.store()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 2))
    host.failStore(with: .diskFull)
    for _ in 0..<2 { try? breaker.run { throw ServiceDown() } }
    #expect(store.health != .connected)
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.repairStore()
    host.clock.advance(by: .seconds(1))
    try breaker.run {}
    #expect(store.health == .connected)
  }

  @Test func `an open breaker is still open after a reboot`() throws {
    let host = TestHost()
    try host.store().breaker("api").trip(for: .seconds(60))
    host.reboot(after: .seconds(20))
    let breaker = try host.store().breaker("api")
    #expect(breaker.snapshot().retryAfter == .seconds(40))
    host.clock.advance(by: .seconds(40))
    try breaker.run {}
  }
}

private struct ServiceDown: Error {}

/// A client of a service whose first answer is an error.
private struct Client {
  let breaker: Breaker
  let jitter: BreakerPolicy.Rate
  private let tries = Notes<Int>()

  init(breaker: Breaker, jitter: BreakerPolicy.Rate = 0.0) {
    self.breaker = breaker
    self.jitter = jitter
  }

  func fetch() async throws -> String {
    try await breaker.run(retry: .fixed(attempts: 2, delay: .seconds(1), jitter: jitter)) {
      tries.note(1)
      await Task.yield()
      if tries.count == 1 { throw ServiceDown() }
      return "fresh"
    }
  }
}

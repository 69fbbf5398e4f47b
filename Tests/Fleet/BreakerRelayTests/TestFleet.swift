import BreakerRelay
@_spi(Relay) import SharedBreaker
import Synchronization
import TestSupport

/// Some hosts and their server, all in one directory.
final class TestFleet {
  let directory: TemporaryDirectory
  let server: RedisServer

  init(options: [String] = []) throws {
    directory = try TemporaryDirectory()
    server = try RedisServer(in: directory, options: options)
  }

  /// A host whose relay works.
  func host(
    _ name: String, as other: String? = nil, address: String? = nil,
    with change: (inout RelayOptions) -> Void = { _ in }
  ) async throws -> TestHost {
    let host = try TestHost(
      name, as: other ?? name, in: directory, address: address ?? server.address, with: change)
    host.start()
    try await host.awaits(.connected)
    return host
  }
}

extension TestFleet {
  /// Hosts whose relays work.
  func hosts(_ names: String...) async throws -> [TestHost] {
    var hosts: [TestHost] = []
    for name in names { hosts.append(try await host(name)) }
    return hosts
  }
}

/// Waits until a condition holds that other threads or processes bring about.
///
/// How long it takes never decides a test; after five minutes it fails. It blocks no thread, because
/// relays need those that tests run in.
func eventually(
  _ what: @autoclosure () -> String, _ condition: () throws -> Bool
) async throws {
  for _ in 0..<60_000 {
    if try condition() { return }
    try await Task.sleep(for: .milliseconds(5))
  }
  throw SupportError("after five minutes it is not so that \(what())")
}

/// One host: its store, and a relay in a thread of this process.
final class TestHost: Sendable {
  let store: SharedStore
  let options: RelayOptions
  private let running = Mutex<Running?>(nil)
  private let lines = Lines()

  /// The reports of a relay, which may come after the test has let go of the host.
  private final class Lines: Sendable {
    let all = Mutex<[String]>([])
  }

  /// A relay and its thread, which only one thread starts and joins.
  private struct Running: @unchecked Sendable {
    let relay: Relay
    let threads: Threads
  }

  convenience init(
    _ name: String, as host: String, in directory: TemporaryDirectory, address: String,
    tls: RedisTLS? = nil, with change: (inout RelayOptions) -> Void = { _ in }
  ) throws {
    var server = try RedisAddress(address)
    server.tls = tls
    try self.init(name, as: host, in: directory, server: server, with: change)
  }

  init(
    _ name: String, as host: String, in directory: TemporaryDirectory, server: RedisAddress,
    with change: (inout RelayOptions) -> Void = { _ in }
  ) throws {
    var options = RelayOptions(
      address: server, fleet: "test", host: host, store: directory.file("\(name).db"))
    options.isJSON = true
    change(&options)
    self.options = options
    store = SharedStore(
      path: options.store, options: StoreOptions(lockTimeout: .seconds(60), program: "test"))
    try store.connect()
  }

  deinit { stop() }

  /// Starts a relay, with other options if some are given.
  func start(_ other: RelayOptions? = nil) {
    let log = RelayLog(isJSON: true) { [lines] line in lines.all.withLock { $0.append(line) } }
    let options = StoreOptions(lockTimeout: .seconds(60))
    guard let relay = try? Relay(other ?? self.options, storeOptions: options, log: log) else {
      return
    }
    let threads = Threads()
    threads.start { _ = try? relay.run() }
    let started = Running(relay: relay, threads: threads)
    running.withLock { $0 = started }
  }

  /// Ends the relay, and waits until it has ended.
  func stop() {
    let stopped = running.withLock { running in
      defer { running = nil }
      return running
    }
    stopped?.relay.stop()
    stopped?.threads.join()
  }

  /// Gives commands while no relay works that could tell them.
  func give(_ body: (SharedStore) throws -> Void) throws {
    let claim = try store.claimRelay(fleet: "test", host: options.host)
    defer { claim?.release() }
    try body(store)
  }

  /// The reports of the relay.
  var log: [String] { lines.all.withLock { $0 } }

  func count(_ kind: RelayLog.Kind) -> Int {
    log.count { $0.contains(#""event":"\#(kind.rawValue)""#) }
  }

  /// Waits until the relay has reported something at least so many times.
  func awaits(_ kind: RelayLog.Kind, times: Int = 1) async throws {
    try await eventually("\(options.host) reports \(kind) \(times) times: \(log)") {
      count(kind) >= times
    }
  }

  func breaker(_ name: String, _ policy: BreakerPolicy? = nil) throws -> Breaker {
    try store.breaker(name, policy: policy)
  }

  func snapshot(_ name: String) throws -> BreakerSnapshot? { try store.snapshot(of: name) }
}

/// A policy of which hosts tell each other.
let sharedPolicy = BreakerPolicy(
  maxFailures: 1, openFor: .seconds(3_600), fleetQuorum: .hosts(2), fleetSpread: .seconds(1))

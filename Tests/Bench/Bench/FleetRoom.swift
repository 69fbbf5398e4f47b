import BenchShim
import Glibc
import SharedBreaker
import TestSupport

/// Two hosts of a fleet: a store and a relay each, and a Redis server between them.
final class FleetRoom {
  let server: RedisServer
  let stores: [SharedStore]
  private let directory: TemporaryDirectory
  private let relays: [Child]
  private var used = 0

  /// Starts the server and the relays, and waits until they are connected, with TLS or without, and
  /// with a key of the fleet or without.
  init(isEncrypted: Bool = false, isSigned: Bool = false) throws {
    guard RedisServer.isInstalled else { throw BenchError("there is no redis-server") }
    let directory = try TemporaryDirectory()
    let server: RedisServer
    var options: [String]
    if isEncrypted {
      guard RedisServer.hasTLS, Certificates.arePossible else {
        throw BenchError("there is no TLS")
      }
      let certificates = try Certificates(in: directory)
      let pair = try certificates.pair("server")
      let (encrypted, port) = try RedisServer.encrypted(
        in: directory, certificate: pair.certificate, key: pair.key, authorities: certificates.file)
      server = encrypted
      options = ["--redis", "rediss://localhost:\(port)", "--ca-file", certificates.file]
    } else {
      server = try RedisServer(in: directory)
      options = ["--redis", server.address]
    }
    options += ["--fleet", "bench"]
    if isSigned {
      let file = directory.file("fleet.keys")
      try Files.write(file, Array("\(String(repeating: "5a", count: 32))\n".utf8))
      try Files.changeMode(file, to: 0o600)
      options += ["--key-file", file]
    }
    self.directory = directory
    self.server = server
    stores = ["a", "b"].map {
      SharedStore(
        path: directory.file("\($0).db"), options: StoreOptions(lockTimeout: .seconds(10)))
    }
    for store in stores { try store.connect() }
    relays = try ["a", "b"].map {
      let own = ["--host", $0, "--store", directory.file("\($0).db")]
      let words = [BuiltProducts.path(of: "cbrelay")] + options + own
      let line = words.map { "'\($0)'" }.joined(separator: " ")
      return try Child("/bin/sh", ["-c", "exec \(line) 2>/dev/null"])
    }
    try waitUntilRelays(areConnected: true)
  }

  func waitUntilRelays(areConnected: Bool) throws {
    let start = seconds()
    while try !stores.allSatisfy({ try $0.fleetStanding()?.isConnected == areConnected }) {
      guard seconds() < start + 60 else { throw BenchError("the relays do not notice the server") }
      usleep(10_000)
    }
  }

  /// Two breakers of one name, one on each host, which are not in use yet.
  func pair() throws -> BreakerPair {
    used += 1
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(60), fleetQuorum: .hosts(1))
    let name = "pair-\(used)"
    return BreakerPair(
      first: try stores[0].breaker(name, policy: policy),
      second: try stores[1].breaker(name, policy: policy))
  }

  /// The processor time and the memory of the first relay.
  func relayUse() throws -> (seconds: Double, megabytes: Double) {
    var clock = clockid_t()
    var time = timespec()
    guard unsafe clock_getcpuclockid(relays[0].pid, &clock) == 0,
      unsafe clock_gettime(clock, &time) == 0
    else { throw BenchError("the relay has ended") }
    let words = String(decoding: try Files.read("/proc/\(relays[0].pid)/statm"), as: UTF8.self)
      .split(separator: " ")
    guard words.count > 1, let pages = Double(words[1]) else { throw BenchError("no statm") }
    return (
      Double(time.tv_sec) + Double(time.tv_nsec) / 1e9,
      pages * Double(sysconf(Int32(_SC_PAGESIZE))) / 1e6
    )
  }
}

/// The breakers of one name on two hosts.
struct BreakerPair {
  var first: Breaker
  var second: Breaker

  /// The microseconds until a step on the first host has changed the second one.
  func microseconds(
    of step: () throws -> Void, until hasArrived: (BreakerSnapshot) -> Bool
  ) throws -> Double {
    try first.run {}
    try second.run {}
    let start = seconds()
    try step()
    while !hasArrived(second.snapshot()) {
      guard seconds() < start + 10 else { throw BenchError("nothing arrives") }
    }
    return (seconds() - start) * 1e6
  }
}

/// A connection to a Redis server that does nothing but what a client must.
final class RawRedis {
  private let descriptor: Int32
  private var bytes: [UInt8] = []

  init(socket path: String) throws {
    descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { place in
      unsafe place.copyBytes(from: path.utf8.prefix(place.count - 1))
    }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let code = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe connect(descriptor, pointer, size)
      }
    }
    guard code == 0 else { throw SupportError("connect", errno) }
  }

  deinit { close(descriptor) }

  func send(_ words: [String]) {
    let text = words.reduce("*\(words.count)\r\n") { "\($0)$\($1.utf8.count)\r\n\($1)\r\n" }
    let bytes = Array(text.utf8)
    _ = unsafe write(descriptor, bytes, bytes.count)
  }

  /// Waits until an answer has come that ends with a line.
  func answer() throws -> String {
    bytes.removeAll(keepingCapacity: true)
    var chunk = [UInt8](repeating: 0, count: 4_096)
    repeat {
      let count = unsafe read(descriptor, &chunk, chunk.count)
      guard count > 0 else { throw SupportError("read", errno) }
      bytes += chunk[..<count]
    } while bytes.last != 0x0A
    return String(decoding: bytes, as: UTF8.self)
  }
}

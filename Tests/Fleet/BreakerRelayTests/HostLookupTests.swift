import BreakerRelay
import Glibc
import Synchronization
import TestSupport
import Testing

/// Looking up the name of a server.
struct HostLookupTests {
  /// Lookups that answer only when the test lets them.
  private final class Gate: Sendable {
    private let isOpen = Mutex(false)
    private let count = Mutex(0)

    var asked: Int { count.withLock { $0 } }

    func open() { isOpen.withLock { $0 = true } }

    func pass() {
      count.withLock { $0 += 1 }
      while !isOpen.withLock({ $0 }) { usleep(1_000) }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lookup that hangs is late, and the next one takes its answer`() throws {
    let gate = Gate()
    let lookup = HostLookup { host in
      gate.pass()
      return .success([host == "redis" ? "10.0.0.7" : "10.0.0.8"])
    }
    for _ in 0..<3 {
      let error = #expect(throws: RedisError.self) {
        try lookup.addresses(of: "redis", patience: .milliseconds(20))
      }
      #expect(error?.description.hasPrefix("its name has not been found for 20ms: ") == true)
    }
    gate.open()
    #expect(try lookup.addresses(of: "redis", patience: .seconds(600)) == ["10.0.0.7"])
    // The three that were late have asked once.
    #expect(gate.asked == 1)
    #expect(try lookup.addresses(of: "redis", patience: .seconds(600)) == ["10.0.0.7"])
    #expect(gate.asked == 2)
  }

  @Test func `an address is not looked up, and a failure is told`() throws {
    let lookup = HostLookup { _ in .failure(RedisError("no such name")) }
    for address in ["127.0.0.1", "::1"] {
      #expect(try lookup.addresses(of: address, patience: .zero) == [address])
    }
    let error = #expect(throws: RedisError.self) {
      try lookup.addresses(of: "redis", patience: .seconds(600))
    }
    #expect(error?.description == "no such name")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the name of this host's loopback interface is found`() throws {
    let addresses = try HostLookup.system.addresses(of: "localhost", patience: .seconds(600))
    #expect(addresses.contains("127.0.0.1") || addresses.contains("::1"))
  }
}

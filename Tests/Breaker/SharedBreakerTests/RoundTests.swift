import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// The work that the first call of each second does.
@Suite struct RoundTests {
  private let stage: Stage
  private let storage: WatchedStorage
  private let breaker: Breaker

  init() throws {
    stage = try Stage()
    storage = WatchedStorage(MemoryStorage(clock: stage.clock.clock))
    let store = SharedStore(storage: storage, options: StoreOptions(clock: stage.clock.clock))
    breaker = try store.breaker("api")
    try breaker.run {}
  }

  /// How often the file is looked at by some calls that are made after a time.
  private func looks(after time: Duration) throws -> Int {
    stage.clock.advance(by: time)
    let before = storage.looks.withLock { $0 }
    for _ in 0..<3 { try breaker.run {} }
    return storage.looks.withLock { $0 } - before
  }

  @Test func `the first call of each second looks at the file, and no other call does`() throws {
    #expect(try looks(after: .milliseconds(999)) == 0)
    #expect(try looks(after: .milliseconds(1)) == 1)
    #expect(try looks(after: .seconds(1)) == 1)
    #expect(try looks(after: .milliseconds(1_700)) == 1)
    #expect(try looks(after: .milliseconds(299)) == 0)
    #expect(try looks(after: .milliseconds(1)) == 1)
    #expect(try looks(after: .seconds(3_600)) == 1)
  }

  @Test(arguments: [Duration.seconds(1), .seconds(-1), .seconds(31_536_000), .seconds(-31_536_000)])
  func `a wall clock that is set causes one round`(jump: Duration) throws {
    stage.clock.moveWall(by: jump)
    #expect(try looks(after: .zero) == 1)
    #expect(try looks(after: .milliseconds(999)) == 0)
    #expect(try looks(after: .milliseconds(1)) == 1)
  }

  @Test func `while the wall clock stands still, only calls that read another clock do the round`()
    throws
  {
    stage.clock.advance(by: .seconds(5))
    stage.clock.moveWall(by: .seconds(-5))
    #expect(try looks(after: .zero) == 0)
    try breaker.trip()
    stage.clock.advance(by: .seconds(1))
    stage.clock.moveWall(by: .seconds(-1))
    let before = storage.looks.withLock { $0 }
    #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(storage.looks.withLock { $0 } > before)
  }
}

/// A storage in memory that counts how often its file is looked at.
private final class WatchedStorage: ForwardingStorage {
  let memory: MemoryStorage
  let looks = Guarded(0)

  init(_ memory: MemoryStorage) { self.memory = memory }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try memory.transact(name, orCreate: orCreate, wait: wait, body)
  }

  func checkIdentity() { looks.withLock { $0 += 1 } }
}

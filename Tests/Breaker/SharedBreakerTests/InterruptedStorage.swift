import BreakerCore
import TestSupport

@testable import BreakerStore

/// A storage in memory in which something else can happen once, after a reading or around a transaction.
final class InterruptedStorage: ForwardingStorage {
  let memory: MemoryStorage
  private let afterReading = Interruption()
  private let beforeTransaction = Interruption()
  private let afterTransaction = Interruption()

  init(_ memory: MemoryStorage) { self.memory = memory }

  func afterNextReading(_ body: @escaping @Sendable () -> Void) { afterReading.set(body) }
  func beforeNextTransaction(_ body: @escaping @Sendable () -> Void) {
    beforeTransaction.set(body)
  }
  func afterNextTransaction(_ body: @escaping @Sendable () -> Void) { afterTransaction.set(body) }

  func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    defer { afterReading.happen() }
    return try memory.read(isLong: isLong, body)
  }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    beforeTransaction.happen()
    defer { afterTransaction.happen() }
    return try memory.transact(name, orCreate: orCreate, wait: wait, body)
  }
}

/// Something that happens at most once.
private final class Interruption: Sendable {
  private let body = Guarded<(@Sendable () -> Void)?>(nil)

  func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }

  func happen() {
    let body = body.withLock { body in
      defer { body = nil }
      return body
    }
    body?()
  }
}

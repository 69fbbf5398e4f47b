internal import BreakerStore
internal import Glibc

/// Keeps forks and calls apart: a fork waits until no thread is inside the library.
///
/// The library itself can be forked at any moment. Swift's runtime cannot: it has locks of its own,
/// such as for what is made at its first use, and a child that inherits one of them locked waits for
/// ever. Healthy calls and rejections from memory need none of them, and do not pass here.
final class CallGate: @unchecked Sendable {
  static let shared = CallGate()

  /// A call passes through here, and a fork holds it while it waits for the calls inside.
  private let entrance = Lock()
  private let lock = Lock()
  private let isEmpty = ThreadWaker()
  private var inside = 0
  private var first: ForkGuard?

  private init() {
    ErrorText.prepare()
    // The store's work around forks is installed first, so that it begins last and ends first.
    first = ForkGuard(of: self, before: {}, after: { _ in })
    pthread_atfork(
      { CallGate.shared.willFork() }, { CallGate.shared.didFork() }, { CallGate.shared.didFork() })
  }

  func pass<Answer>(
    _ body: () throws(Failure) -> Answer
  ) throws(Failure) -> Answer {
    entrance.lock()
    enter()
    entrance.unlock()
    defer { leave() }
    return try body()
  }

  /// Lets a call pass that must not wait for a fork; nil if there is one.
  func passAtOnce<Answer>(
    _ body: () throws(Failure) -> Answer
  ) throws(Failure) -> Answer? {
    guard entrance.tryLock() else { return nil }
    enter()
    entrance.unlock()
    defer { leave() }
    return try body()
  }

  private func enter() { lock.withLock { inside += 1 } }

  private func leave() {
    lock.withLock {
      inside -= 1
      if inside == 0 { isEmpty.wake() }
    }
  }

  private func willFork() {
    entrance.lock()
    lock.lock()
    while inside > 0 { _ = isEmpty.wait(lock, until: nil) }
  }

  private func didFork() {
    lock.unlock()
    entrance.unlock()
  }
}

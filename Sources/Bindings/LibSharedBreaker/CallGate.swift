internal import BreakerStore
internal import CSharedBreaker
internal import Glibc

/// Keeps forks and calls apart: a fork waits until no thread is inside the library.
///
/// So does the close of a store, because a call that is still inside could open it again.
///
/// The library itself can be forked at any moment. Swift's runtime cannot: it has locks of its own,
/// such as one for globals that are made at their first use, and a child that inherits one of them
/// locked waits forever. Healthy calls and rejections from memory need none of them, and do not pass
/// here.
///
/// Unchecked because the compiler does not know that the lock guards the count of the calls inside.
final class CallGate: @unchecked Sendable {
  static let shared = CallGate()

  /// A call passes through here; a thread that waits for the calls inside holds it meanwhile.
  private let entrance = Lock()
  private let lock = Lock()
  private let isEmpty = ThreadWaker()
  private var inside = 0
  private var first: ForkGuard?

  private init() {
    ErrorText.prepare()
    ThreadCalls.prepare()
    HelperGate.install(
      inside: { CallGate.shared.passAlways($0) }, outside: { CallGate.shared.stepOut($0) })
    // The store's work around forks is installed first, so that it begins last and ends first.
    first = ForkGuard(of: self, before: {}, after: { _ in })
    pthread_atfork(
      { CallGate.shared.shut() }, { CallGate.shared.reopen() }, { CallGate.shared.reopen() })
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

  /// Lets a thread of the library pass.
  private func passAlways(_ body: () -> Void) {
    entrance.lock()
    enter()
    entrance.unlock()
    body()
    leave()
  }

  /// Lets a call pass that must not wait for a fork; nil if a fork is under way.
  func passAtOnce<Answer>(
    _ body: () throws(Failure) -> Answer
  ) throws(Failure) -> Answer? {
    guard entrance.tryLock() else { return nil }
    enter()
    entrance.unlock()
    defer { leave() }
    return try body()
  }

  /// Runs a body in which a call that is inside sleeps, perhaps for long.
  ///
  /// Forks and closing stores need not wait for it: a thread that sleeps in the kernel holds no lock of
  /// Swift's runtime. It goes on when they are done.
  func stepOut(_ body: () -> Void) {
    leave()
    body()
    entrance.lock()
    enter()
    entrance.unlock()
  }

  private func enter() { lock.withLock { inside += 1 } }

  private func leave() {
    lock.withLock {
      inside -= 1
      if inside == 0 { isEmpty.wake() }
    }
  }

  /// Waits for the calls that are inside; the caller must not be inside itself.
  func waitForCalls() {
    shut()
    reopen()
  }

  private func shut() {
    entrance.lock()
    lock.lock()
    while inside > 0 { _ = isEmpty.wait(lock, until: nil) }
  }

  private func reopen() {
    lock.unlock()
    entrance.unlock()
  }
}

@c @implementation
package func sb_interruptible(
  _ is_over: (@convention(c) (UnsafeMutableRawPointer?) -> CInt)?,
  _ context: UnsafeMutableRawPointer?
) { unsafe Patience.ask(is_over, context) }

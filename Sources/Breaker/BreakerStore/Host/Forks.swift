internal import CHost
internal import Synchronization

/// Runs work around every fork of this process, until the guard is ended.
@safe package final class ForkGuard: Sendable {
  private let before: @Sendable () -> Void
  private let after: @Sendable (_ isChild: Bool) -> Void

  // Set by the initializer alone; a weak reference may be read by several threads.
  private nonisolated(unsafe) weak var owner: AnyObject?

  // The pointer never changes; the list of hooks that it is in has a lock of its own.
  private nonisolated(unsafe) let hook: UnsafeMutablePointer<sb_fork_hook>

  /// Starts to guard an owner, whose deinit must call `end()`.
  ///
  /// The owner is kept alive during a fork, so that its deinit cannot start in the middle of it. If
  /// the deinit has already begun, the work is still done, because `end()` waits for the fork.
  package init(
    of owner: AnyObject,
    before: @escaping @Sendable () -> Void,
    after: @escaping @Sendable (_ isChild: Bool) -> Void
  ) {
    self.before = before
    self.after = after
    unsafe self.owner = owner
    unsafe hook = .allocate(capacity: 1)
    unsafe hook.initialize(
      to: sb_fork_hook(
        before: { unsafe ForkGuard.from($0)?.beforeFork() },
        after: { context, isChild in unsafe ForkGuard.from(context)?.after(isChild != 0) },
        release: { held in
          guard let held = unsafe held else { return }
          unsafe Unmanaged<AnyObject>.fromOpaque(held).release()
        }, context: nil, next: nil))
    unsafe hook.pointee.context = Unmanaged.passUnretained(self).toOpaque()
    unsafe sb_fork_add(hook)
  }

  deinit { unsafe hook.deallocate() }

  /// Ends the work around forks; waits for a fork that is under way.
  package func end() { unsafe sb_fork_remove(hook) }

  /// How many forks lie between the first process that used this library and this one.
  package static var depth: UInt64 { sb_fork_depth() }

  private func beforeFork() -> UnsafeMutableRawPointer? {
    let held = unsafe owner.map { unsafe Unmanaged.passRetained($0).toOpaque() }
    before()
    return unsafe held
  }

  private static func from(_ context: UnsafeMutableRawPointer?) -> ForkGuard? {
    guard let context = unsafe context else { return nil }
    return unsafe Unmanaged<ForkGuard>.fromOpaque(context).takeUnretainedValue()
  }
}

/// Keeps forks and examinations apart, because a child would inherit what an examination has open.
package final class ForkGate: Sendable {
  /// An examination passes through here, and a fork holds it while it waits for the lock.
  ///
  /// The lock alone would mostly go to the thread that has just released it, however long another
  /// one waits.
  private let entrance = Lock()
  private let lock = Lock()
  private let isWaiting = Atomic(false)

  package init() {}

  /// Whether a fork is waiting for an examination to end.
  var isForkWaiting: Bool { isWaiting.load(ordering: .relaxed) }

  /// Runs a body during which this process does not fork.
  func shut<Result>(
    during body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    entrance.lock()
    entrance.unlock()
    return try lock.withLock(body)
  }

  package func willFork() {
    entrance.lock()
    isWaiting.store(true, ordering: .relaxed)
    lock.lock()
  }

  package func didFork() {
    isWaiting.store(false, ordering: .relaxed)
    lock.unlock()
    entrance.unlock()
  }
}

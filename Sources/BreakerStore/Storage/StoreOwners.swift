package import BreakerCore

/// What processes hold of a store for as long as they live, to be told from those that have ended.
package protocol StoreOwners: AnyObject, Sendable {
  /// What this process holds, to be named in a lease or a claim that it is about to write; nil if
  /// it can hold nothing here.
  func lifeline() -> Lifeline?

  /// Whether the owner of a lease or a claim has ended for certain.
  func isGone(_ owner: ProcessIdentity) -> Bool

  /// Takes the right to be the relay of the store; nil if another one has it.
  func holdRelay() throws(StoreError) -> RelayHold?

  /// Whether a relay works on the store.
  func isRelayHeld() throws(StoreError) -> Bool
}

/// The right to be the relay of a store, for as long as it is kept.
package final class RelayHold: Sendable {
  private let end: @Sendable () -> Void
  private let isOver = Guarded(false)

  init(_ end: @escaping @Sendable () -> Void) { self.end = end }

  deinit { release() }

  /// Gives the right back; it does nothing the second time.
  package func release() {
    let isFirst = isOver.withLock { isOver in
      defer { isOver = true }
      return !isOver
    }
    if isFirst { end() }
  }
}

/// What processes hold of a store in a file: locks on files beside it.
final class FileOwners: StoreOwners {
  private let path: String
  private let lifelines: Lifelines

  init(of path: String) {
    self.path = path
    lifelines = Lifelines(of: path)
  }

  func lifeline() -> Lifeline? { lifelines.own() }

  func isGone(_ owner: ProcessIdentity) -> Bool { OwnerJudge(of: path).isGone(owner) }

  func holdRelay() throws(StoreError) -> RelayHold? {
    guard let lock = try StoreLock.claimed(StorePath.resolved(path)) else { return nil }
    let forkDepth = ForkGuard.depth
    // A child that was forked meanwhile has the lock too, but is not the relay.
    return RelayHold { if ForkGuard.depth == forkDepth { lock.release() } else { lock.letGo() } }
  }

  func isRelayHeld() throws(StoreError) -> Bool {
    try StoreLock.isClaimed(StorePath.resolved(path))
  }

  func willFork() { lifelines.willFork() }
  func didFork() { lifelines.didFork() }
}

internal import BreakerCore

/// The right to be the relay of a store; it ends when this object is released.
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

/// The locks beside a store by which processes hold something in it until they end.
final class FileOwners: Sendable {
  private let path: String
  private let lifelines: Lifelines

  init(of path: String) {
    self.path = path
    lifelines = Lifelines(of: path)
  }

  func lifeline() -> Lifeline? { lifelines.own() }

  /// The slots of the store, in which this process is known by the same lifeline.
  func slotPage(_ clock: StoreClock) -> SlotPage {
    SlotPage(clock: clock) { [lifelines] in ProcessTable.current().holding(lifelines.own()) }
  }

  func isGone(_ owner: ProcessIdentity) -> Bool { OwnerJudge(of: path).isGone(owner) }

  func holdRelay() throws(StoreError) -> RelayHold? {
    guard let lock = try StoreLock.claimed(StorePath.resolved(path)) else { return nil }
    let forkDepth = ForkGuard.depth
    // A child that was forked meanwhile inherits the lock, but is not the relay.
    return RelayHold { if ForkGuard.depth == forkDepth { lock.release() } else { lock.letGo() } }
  }

  func isRelayHeld() throws(StoreError) -> Bool {
    try StoreLock.isClaimed(StorePath.resolved(path))
  }

  func willFork() { lifelines.willFork() }
  func didFork() { lifelines.didFork() }
}

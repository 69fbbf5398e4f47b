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

/// The right to be the relay of a store in memory.
final class MemoryRelay: Sendable {
  private let holder = Guarded(Holder())

  /// The process that is the relay, by a number, and whether it has ended.
  private struct Holder {
    var number: Int64 = 0
    var isGone: (@Sendable () -> Bool)?
    var isThere: Bool { isGone.map { !$0() } ?? false }
  }

  /// Takes the right for a process that may end without giving it back; nil if another process has it.
  func hold(isGone: @escaping @Sendable () -> Bool) -> RelayHold? {
    holder.withLock { holder in
      guard !holder.isThere else { return nil }
      holder.number += 1
      holder.isGone = isGone
      let number = holder.number
      return RelayHold { [self] in
        self.holder.withLock { if $0.number == number { $0.isGone = nil } }
      }
    }
  }

  var isHeld: Bool { holder.withLock { $0.isThere } }

  func willFork() { holder.willFork() }
  func didFork() { holder.didFork() }
}

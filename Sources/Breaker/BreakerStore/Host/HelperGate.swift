/// How threads of the library keep out of the way of forks, where a fork waits for calls inside of it.
///
/// A thread that waits for the turns of others is a call like all others: the C library keeps it inside of
/// its gate, and outside while it sleeps. In Swift programs there is no gate.
package enum HelperGate {
  /// Runs a body inside of the gate, or outside of it.
  package typealias Passage = @Sendable (() -> Void) -> Void

  /// A struct, because each look at closures that a generic type keeps by themselves would wrap them once more.
  private struct Passages {
    let inside: Passage
    let outside: Passage
  }

  private static let passages = Guarded<Passages?>(nil)

  /// Sets the gate, before the first thread is started.
  package static func install(inside: @escaping Passage, outside: @escaping Passage) {
    passages.withLock { $0 = Passages(inside: inside, outside: outside) }
  }

  /// Runs the work of a thread.
  static func inside(_ body: () -> Void) {
    if let passage = passages.withLock({ $0?.inside }) { passage(body) } else { body() }
  }

  /// Runs a body in which such a thread sleeps.
  static func outside(_ body: () -> Void) {
    if let passage = passages.withLock({ $0?.outside }) { passage(body) } else { body() }
  }
}

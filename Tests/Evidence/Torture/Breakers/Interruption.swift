import Glibc
import Synchronization

/// A signal has asked the torture to end, which first removes what it has started and mounted.
struct Interruption: Error {
  private static let isAskedFor = Atomic(false)

  static func listen() {
    // Creates the variable before a signal can come.
    isAskedFor.store(false, ordering: .relaxed)
    for number in [SIGINT, SIGTERM, SIGHUP] {
      signal(number) { _ in Interruption.isAskedFor.store(true, ordering: .relaxed) }
    }
  }

  static func check() throws {
    if isAskedFor.load(ordering: .relaxed) { throw Interruption() }
  }
}

import Glibc
import Synchronization

/// Somebody wants an end of it: what was started and mounted is then cleared away first.
struct Interruption: Error {
  private static let isAskedFor = Atomic(false)

  static func listen() {
    // Made before a signal can come.
    isAskedFor.store(false, ordering: .relaxed)
    for number in [SIGINT, SIGTERM, SIGHUP] {
      signal(number) { _ in Interruption.isAskedFor.store(true, ordering: .relaxed) }
    }
  }

  static func check() throws {
    if isAskedFor.load(ordering: .relaxed) { throw Interruption() }
  }
}

import SharedBreaker
import Synchronization

/// A clock of this process that stands still until the test moves it.
final class HandClock: Sendable {
  private let nanoseconds = Atomic<Int64>(1_000_000_000_000)
  private let boots = Atomic<Int64>(1)

  /// The time of the boot clock, in nanoseconds.
  var time: Int64 {
    get { nanoseconds.load(ordering: .relaxed) }
    set { nanoseconds.store(newValue, ordering: .relaxed) }
  }

  func reboot() { boots.add(1, ordering: .relaxed) }

  var clock: StoreClock {
    StoreClock(
      bootNanoseconds: { self.nanoseconds.load(ordering: .relaxed) },
      wallMilliseconds: {
        1_800_000_000_000 + self.nanoseconds.load(ordering: .relaxed) / 1_000_000
      },
      bootID: { "boot \(self.boots.load(ordering: .relaxed))" })
  }
}

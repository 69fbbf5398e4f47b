internal import Glibc
package import SharedBreaker
internal import Synchronization

/// A clock that several processes share and that moves only when a test moves it.
///
/// Its times are in a file that every process maps.
@safe package final class TestClock: Sendable {
  package let path: String
  private nonisolated(unsafe) let times: UnsafeMutablePointer<Atomic<Int64>>

  private static let length = 4_096
  private static let boot = 0
  private static let wall = 1
  private static let boots = 2

  /// Creates the file of a clock, or shares the file that exists.
  package init(path: String) throws {
    self.path = path
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    guard ftruncate(descriptor, Self.length) == 0 else { throw SupportError("ftruncate", errno) }
    let flags = PROT_READ | PROT_WRITE
    guard let mapping = unsafe mmap(nil, Self.length, flags, MAP_SHARED, descriptor, 0),
      unsafe mapping != MAP_FAILED
    else { throw SupportError("mmap", errno) }
    unsafe times = mapping.bindMemory(to: Atomic<Int64>.self, capacity: 3)
    if unsafe times[Self.boots].load(ordering: .relaxed) == 0 {
      unsafe times[Self.boot].store(1_000_000_000_000, ordering: .relaxed)
      unsafe times[Self.wall].store(1_800_000_000_000, ordering: .relaxed)
      unsafe times[Self.boots].store(1, ordering: .relaxed)
    }
  }

  deinit { unsafe munmap(times, Self.length) }

  /// The clock in the form that a store takes.
  package var clock: StoreClock {
    StoreClock(
      bootNanoseconds: { unsafe self.times[Self.boot].load(ordering: .relaxed) },
      wallMilliseconds: { unsafe self.times[Self.wall].load(ordering: .relaxed) },
      bootID: { unsafe "boot \(self.times[Self.boots].load(ordering: .relaxed))" })
  }

  /// Moves both clocks forward.
  package func advance(by time: Duration) {
    let nanoseconds = Int64(time / .nanoseconds(1))
    unsafe times[Self.boot].add(nanoseconds, ordering: .relaxed)
    unsafe times[Self.wall].add(nanoseconds / 1_000_000, ordering: .relaxed)
  }

  /// Moves the wall clock alone, as if it had been set.
  package func moveWall(by time: Duration) {
    unsafe times[Self.wall].add(Int64(time / .milliseconds(1)), ordering: .relaxed)
  }

  /// Begins another boot after the host was off for a time; the new boot is one second old.
  package func reboot(after time: Duration = .zero) {
    moveWall(by: time)
    unsafe times[Self.boot].store(1_000_000_000, ordering: .relaxed)
    unsafe times[Self.boots].add(1, ordering: .relaxed)
  }
}

import BreakerStore
import Glibc
import SharedBreaker
import TestSupport

/// For how long calls of processes that have ended keep room that others wait for.
///
/// A thread looks every few milliseconds, without taking part. So a time is as long as that on a busy host, and
/// the time until the thread gets a processor is in it.
final class RoomOfTheDead {
  private let times: Guarded<Times>
  private let thread = Threads()

  private struct Times {
    /// Since when the calls of a process were seen to be left.
    var since: [Int32: Int64] = [:]
    var nanoseconds: [Int64] = []
    var isOver = false

    mutating func see(_ left: Set<Int32>, at now: Int64) {
      for (process, start) in since where !left.contains(process) {
        nanoseconds.append(now - start)
        since[process] = nil
      }
      for process in left where since[process] == nil { since[process] = now }
    }
  }

  init(of name: String, in store: SharedStore) {
    let times = Guarded(Times())
    self.times = times
    thread.start {
      while !times.withLock({ $0.isOver }) {
        let limit = (try? store.snapshot(of: name))?.limit
        let isWanted = limit.map { !$0.waiters.allSatisfy(\.isOwnerGone) } ?? false
        let left = Set((limit?.calls ?? []).filter(\.isOwnerGone).compactMap(\.pid))
        times.withLock { times in
          if isWanted { times.see(left, at: Witness.now) } else { times.since = [:] }
        }
        usleep(3_000)
      }
    }
  }

  /// Ends the looks; returns the times that have ended, in nanoseconds.
  func end() -> [Int64] {
    times.withLock { $0.isOver = true }
    thread.join()
    return times.withLock { $0.nanoseconds }
  }
}

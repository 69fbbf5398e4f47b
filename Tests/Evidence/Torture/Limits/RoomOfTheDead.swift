import BreakerStore
import Glibc
import SharedBreaker
import TestSupport

/// For how long calls of processes that have ended keep room that others wait for.
///
/// A thread checks that every few milliseconds, through a store that makes no calls and so takes no part in the
/// limit. No time is more exact than that, and on a busy host each includes the wait for a processor.
final class RoomOfTheDead {
  private let times: Guarded<Times>
  private let thread = Threads()

  private struct Times {
    /// Since when the calls of a process were seen to be left.
    var since: [Int32: Int64] = [:]
    var nanoseconds: [Int64] = []
    var isOver = false

    mutating func see(_ left: Set<Int32>, isWanted: Bool, at now: Int64) {
      for (process, start) in since where !left.contains(process) {
        nanoseconds.append(now - start)
        since[process] = nil
      }
      if !isWanted { since = [:] }
      for process in left where isWanted && since[process] == nil { since[process] = now }
    }
  }

  init(of name: String, inStoreAt path: String) {
    let times = Guarded(Times())
    self.times = times
    thread.start {
      let store = SharedStore(path: path)
      defer { store.close() }
      while !times.withLock({ $0.isOver }) {
        if let limit = (try? store.snapshot(of: name))?.limit {
          let left = Set(limit.calls.filter(\.isOwnerGone).compactMap(\.pid))
          let isWanted = !limit.waiters.allSatisfy(\.isOwnerGone)
          times.withLock { $0.see(left, isWanted: isWanted, at: Witness.now) }
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

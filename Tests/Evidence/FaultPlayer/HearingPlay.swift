import BreakerStore
import Dispatch
import FaultShim
import Glibc
import SharedBreaker
import TestSupport

/// A task that follows the history, for a thread that waits for what the task receives.
final class HearingPlay: Sendable {
  private let heard = Guarded<[Int64]>([])
  private let word = DispatchSemaphore(value: 0)
  private let isOver = DispatchSemaphore(value: 0)
  private let task = Guarded<Task<Void, Never>?>(nil)

  /// Starts the task; `listen` passes what it receives to `hear`.
  func begin(_ listen: @escaping @Sendable (HearingPlay) async -> Void) {
    task.withLock {
      $0 = Task.detached {
        await listen(self)
        self.isOver.signal()
      }
    }
  }

  func hear(_ entry: HistoryEntry) {
    heard.withLock { $0.append(entry.id) }
    word.signal()
  }

  /// Waits until the task has received a number of entries, or the disk has failed.
  func waitForFault(orEntries count: Int) {
    while fault_strikes() == 0, heard.withLock({ $0.count }) < count { sched_yield() }
  }

  /// Checks that the task receives every entry up to the last, each once and in order.
  func check(upTo last: Int64) throws {
    for _ in 1...last {
      guard word.wait(timeout: .now() + .seconds(60)) == .success else {
        throw Wrong("only \(heard.withLock { $0 }) were heard")
      }
    }
    let all = heard.withLock { $0 }
    if all != Array(1...last) { throw Wrong("\(all) were heard") }
  }

  func end() {
    guard let task = task.withLock({ $0.take() }) else { return }
    task.cancel()
    isOver.wait()
  }
}

/// Scenarios of listeners while the disk fails; the next entry wakes those that could not read.
extension FaultScenario {
  static let listening = listeners.map { listener in
    var listener = listener
    listener.isExact = false
    return listener
  }

  private static let listeners = [
    FaultScenario("follow", prepare: threeTimes) { play in
      try listen(play) { store, hearing in
        for await entry in store.followHistory(after: 0) { hearing.hear(entry) }
      }
    },
    FaultScenario("handle", prepare: threeTimesHandled) { play in
      try listen(play) { store, hearing in
        await store.handleHistory(as: "pager") { hearing.hear($0) }
      }
    },
  ]

  @Sendable private static func threeTimes(_ play: Play) throws {
    try open(play)
    try play.breaker.reset()
    try play.breaker.trip()
  }

  @Sendable private static func threeTimesHandled(_ play: Play) throws {
    try threeTimes(play)
    // A hook begins with the first entry after its first use, so it is set to the beginning here.
    try Database.rows(
      play.path,
      "INSERT INTO hook (name, handled, failures, claim, boot, until_ns)"
        + " VALUES ('pager', 0, 0, 0, 0, 0)")
  }

  private static func listen(
    _ play: Play, _ listen: @escaping @Sendable (SharedStore, HearingPlay) async -> Void
  ) throws {
    let hearing = HearingPlay()
    let store = play.store
    hearing.begin { await listen(store, $0) }
    hearing.waitForFault(orEntries: 3)
    play.struck = Int(fault_disarm())
    try play.other.breaker("neighbour").trip()
    defer { hearing.end() }
    try hearing.check(upTo: 4)
  }
}

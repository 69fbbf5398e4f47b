import Synchronization

/// What happened, in the order in which it was noted.
final class Journal<Entry: Sendable>: Sendable {
  private let noted = Mutex<[Entry]>([])

  func note(_ entry: Entry) { noted.withLock { $0.append(entry) } }

  var entries: [Entry] { noted.withLock { $0 } }

  var count: Int { entries.count }
}

/// Waits until something is so, or the test has used up its time.
func until(_ isSo: () -> Bool) async {
  while !isSo(), !Task.isCancelled { await Task.yield() }
}

/// An error of a resource.
struct Refused: Error, Equatable {
  var code = 500
}

import BreakerStore
import TestSupport
import Testing

/// Events, in the order in which they were noted.
final class Notes<Entry: Sendable>: Sendable {
  private let noted = Guarded<[Entry]>([])

  func note(_ entry: Entry) { noted.withLock { $0.append(entry) } }

  var entries: [Entry] { noted.withLock { $0 } }

  var count: Int { entries.count }

  /// An entry that must have been noted by now; a missing one ends only this test.
  func entry(_ index: Int) throws -> Entry {
    let entries = entries
    try #require(index < entries.count)
    return entries[index]
  }
}

/// Waits until a condition holds or the test has used up its time.
func until(_ isSo: () -> Bool) async {
  while !isSo(), !Task.isCancelled { await Task.yield() }
}

/// An error of a resource.
struct Refused: Error, Equatable {
  var code = 500
}

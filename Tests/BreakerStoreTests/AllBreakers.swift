import BreakerStore

extension SQLiteStorage {
  /// Every breaker, by name.
  func all() throws -> [StoredBreaker] {
    try read(list(beginningWith: "", in: nil)).compactMap { $0 }
  }
}

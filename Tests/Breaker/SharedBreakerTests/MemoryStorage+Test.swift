import BreakerStore

extension MemoryStorage {
  /// A storage for one test, whose processes are those of the host.
  convenience init(clock: StoreClock) {
    self.init(clock: clock, program: "test", isGone: { ProcessTable.fate(of: $0) == .over })
  }
}

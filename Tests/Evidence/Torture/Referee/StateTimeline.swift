/// When each change of a breaker had surely not begun, and when it was surely over.
///
/// Changes are those of the state, or of the mode. The history has them in order, but not their
/// times to the nanosecond. The process that made a change recorded when its call began and when it
/// was notified. At the k-th change of a process, k calls had begun, and once k notices had come,
/// it was over. So the k-th of the sorted times hold, whichever thread made which change.
struct StateTimeline: Sendable {
  /// A change of state.
  struct Step: Sendable {
    var event: Event

    /// The change was not committed before this time.
    var began: Int64

    /// The change was committed by this time; the largest number if that is not known.
    var ended: Int64
  }

  private(set) var steps: [Step]

  /// The state, or the mode, before the first change.
  private let beginning: String

  init(_ steps: [Step], beginning: String) {
    self.steps = steps
    self.beginning = beginning
    // A later change did not begin earlier, and an earlier change did not end later.
    for index in self.steps.indices.dropFirst() {
      self.steps[index].began = max(self.steps[index].began, self.steps[index - 1].began)
    }
    for index in self.steps.indices.dropLast().reversed() {
      self.steps[index].ended = min(self.steps[index].ended, self.steps[index + 1].ended)
    }
  }

  /// Returns the state that surely held all the time between two moments; nil if none did.
  func state(from began: Int64, to ended: Int64) -> String? {
    let next = firstIndex { $0.ended >= began }
    if next < steps.count, steps[next].began <= ended { return nil }
    return next == 0 ? beginning : steps[next - 1].event.to
  }

  /// Finds the first step by binary search, because the ends are in order.
  private func firstIndex(where isReached: (Step) -> Bool) -> Int {
    var low = 0
    var high = steps.count
    while low < high {
      let middle = (low + high) / 2
      if isReached(steps[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

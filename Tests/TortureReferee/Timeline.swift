/// When each change of a breaker's state, or of its mode, was surely over, and when it had surely not begun.
///
/// The history has the changes in order, but not the time to the nanosecond. The process that made
/// one wrote down when its call began and when it was told. If the k-th change of a process is meant,
/// k calls had begun by then, and once k had been told it was over: so the k-th of the sorted times
/// hold, whichever thread made which.
package struct Timeline: Sendable {
  /// A change of state.
  package struct Step: Sendable {
    package var event: Event

    /// Not yet committed before this.
    package var began: Int64

    /// Committed by then; the largest number if nobody knows.
    package var ended: Int64
  }

  package private(set) var steps: [Step]

  /// What there was before the first change.
  private let beginning: String

  init(_ steps: [Step], beginning: String) {
    self.steps = steps
    self.beginning = beginning
    // What came later had not begun earlier, and what came earlier was not over later.
    for index in self.steps.indices.dropFirst() {
      self.steps[index].began = max(self.steps[index].began, self.steps[index - 1].began)
    }
    for index in self.steps.indices.dropLast().reversed() {
      self.steps[index].ended = min(self.steps[index].ended, self.steps[index + 1].ended)
    }
  }

  /// The state that held all the time between two moments, if it is sure which.
  package func state(from began: Int64, to ended: Int64) -> String? {
    let next = firstIndex { $0.ended >= began }
    if next < steps.count, steps[next].began <= ended { return nil }
    return next == 0 ? beginning : steps[next - 1].event.to
  }

  /// The ends are in order, so the search can halve.
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

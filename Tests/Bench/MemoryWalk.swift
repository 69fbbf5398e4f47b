import TestSupport

/// A walk through memory, in which each cache line tells where the next one is.
///
/// The processor can fetch nothing ahead, so each step takes as long as memory does to answer.
enum MemoryWalk {
  private static let wordsOfLine = 8

  /// The nanoseconds for each line, in random order.
  static func nanoseconds(lines: Int) throws -> Double {
    let order = (0..<lines).shuffled()
    var next = [Int](repeating: 0, count: lines * wordsOfLine)
    for (line, following) in zip(order, order.dropFirst() + order.prefix(1)) {
      next[line * wordsOfLine] = following * wordsOfLine
    }
    var best = Double.infinity
    var place = 0
    for _ in 0..<10 {
      let start = seconds()
      for _ in 0..<lines { place = next[place] }
      best = min(best, (seconds() - start) / Double(lines) * 1e9)
    }
    // Also keeps the walk from being left out.
    guard place == 0 else { throw BenchError("the walk did not return") }
    return best
  }
}

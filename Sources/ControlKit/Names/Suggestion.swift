/// Finds what the user probably meant to type.
enum Suggestion {
  /// The longest text that is compared, because comparing takes quadratic time.
  private static let longest = 64

  /// The candidate nearest to a word, or nil if none is near enough.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    guard !word.isEmpty, word.utf8.count <= longest else { return nil }
    let lower = Array(word.lowercased().unicodeScalars)
    var best: (candidate: String, distance: Int)?
    for candidate in candidates where candidate.utf8.count <= longest {
      let other = Array(candidate.lowercased().unicodeScalars)
      let isBeginning = lower.count >= 3 && other.starts(with: lower)
      let near = isBeginning ? .max : max(1, min(lower.count, other.count) / 3)
      // Of a hundred thousand candidates, this drops nearly all after a few letters.
      let limit = min(near, (best?.distance ?? .max) - 1)
      if let distance = distance(from: lower, to: other, atMost: limit) {
        best = (candidate, distance)
      }
    }
    return best?.candidate
  }

  /// How many letters must be added, dropped, replaced or swapped with their neighbour.
  ///
  /// The result is nil if that is more than `limit`.
  static func distance(
    from first: [Unicode.Scalar], to second: [Unicode.Scalar], atMost limit: Int
  ) -> Int? {
    var beforeLast: [Int] = []
    var last = Array(0...second.count)
    for row in 0..<first.count {
      var current = [row + 1]
      current.reserveCapacity(last.count)
      for column in 0..<second.count {
        let isSame = first[row] == second[column]
        var least = min(
          last[column] + (isSame ? 0 : 1), last[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, first[row] == second[column - 1], first[row - 1] == second[column] {
          least = min(least, beforeLast[column - 1] + 1)
        }
        current.append(least)
      }
      // No later row is better than the best of the two rows before it.
      if min(current.min() ?? 0, last.min() ?? 0) > limit { return nil }
      beforeLast = last
      last = current
    }
    return last[second.count] <= limit ? last[second.count] : nil
  }
}

/// Finds what somebody probably meant to type.
enum Suggestion {
  /// Comparing is quadratic, and nobody mistypes anything longer.
  private static let longest = 64

  /// The candidate that is nearest to a word, or nil if none is near enough to be meant.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    guard !word.isEmpty, word.utf8.count <= longest else { return nil }
    let lower = word.lowercased()
    var best: (candidate: String, distance: Int)?
    for candidate in candidates where candidate.utf8.count <= longest {
      let distance = distance(from: lower, to: candidate.lowercased())
      let isNear = distance <= max(1, min(word.count, candidate.count) / 3)
      let isBeginning = word.count >= 3 && candidate.lowercased().hasPrefix(lower)
      guard isNear || isBeginning else { continue }
      if distance < best?.distance ?? .max { best = (candidate, distance) }
    }
    return best?.candidate
  }

  /// How many letters have to be added, dropped, replaced or swapped with their neighbour.
  static func distance(from first: String, to second: String) -> Int {
    let first = Array(first)
    let second = Array(second)
    var beforeLast: [Int] = []
    var last = Array(0...second.count)
    for row in 0..<first.count {
      var current = [row + 1]
      for column in 0..<second.count {
        let isSame = first[row] == second[column]
        var least = min(
          last[column] + (isSame ? 0 : 1), last[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, first[row] == second[column - 1], first[row - 1] == second[column] {
          least = min(least, beforeLast[column - 1] + 1)
        }
        current.append(least)
      }
      beforeLast = last
      last = current
    }
    return last[second.count]
  }
}

import TestSupport

/// A command to a fleet, from the server's having it until all hosts have said that they have carried
/// it out.
///
/// A host carries out what it hears at once, and says so with its next beat.
struct Confirming {
  var hosts: Int

  /// Of a thousand hosts, so many lose their connections just before the command.
  var lost = 0

  /// How long a relay waits for an answer before it connects again, and how long it pauses at most.
  private static let patience = 3 * FleetScenario.second
  private static let longestPause = 3 * FleetScenario.second / 2

  /// When each host has confirmed, in nanoseconds, earliest first.
  func times(seed: UInt64 = 1) -> [Int64] {
    var random = SeededRandom(seed: seed)
    let interval = Beat.interval(of: hosts)
    let those = (hosts * lost + 999) / 1_000
    return (0..<hosts).map { host in
      // A message and a beat take as long as in the other simulations.
      let way = Int64.random(in: 200_000...2_000_000, using: &random)
      guard host < those else {
        return way + Int64.random(in: 0..<interval, using: &random) + way
      }
      // It catches up after it has noticed, and its first beat after that follows at once.
      let pause = Int64.random(in: Self.longestPause / 2...Self.longestPause, using: &random)
      return Int64.random(in: 0...Self.patience, using: &random) + pause + 8 * way
    }.sorted()
  }
}

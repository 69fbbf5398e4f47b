/// The pauses between attempts: they grow, and vary so that hosts do not all try at once.
package struct Pause {
  private var milliseconds = 50.0

  private static let longest = 1_500.0

  /// How long a session has to last so that what ends it is news.
  private static let lasting = Duration.seconds(10)

  package init() {}

  /// Whether there was no pause yet.
  package var isFirst: Bool { milliseconds == 50 }

  /// The length of the next pause.
  package mutating func next() -> Duration {
    milliseconds = min(milliseconds * 2, Self.longest)
    return .milliseconds(Int64(milliseconds * .random(in: 0.5...1)))
  }

  /// Begins again if a session has lasted.
  ///
  /// Whatever fails at the beginning of each session would otherwise be tried ten times a second.
  package mutating func noteSession(of age: Duration) {
    if age > Self.lasting { self = Pause() }
  }
}

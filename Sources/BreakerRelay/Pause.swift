/// The pauses between attempts: they grow, and vary so that hosts do not all try at once.
struct Pause {
  private var milliseconds = 50.0

  private static let longest = 2_000.0

  /// Whether there was no pause yet.
  var isFirst: Bool { milliseconds == 50 }

  /// The length of the next pause.
  mutating func next() -> Duration {
    milliseconds = min(milliseconds * 2, Self.longest)
    return .milliseconds(Int64(milliseconds * .random(in: 0.5...1)))
  }
}

/// A test waited for a sleeper that did not come.
///
/// `untilSomebodySleeps(for:)` of a ``ManualClock`` throws it instead of waiting forever.
public struct NobodySleeps: Error, Sendable, Hashable, CustomStringConvertible {
  /// How long the sleeper was to sleep.
  public let durations: ClosedRange<Duration>

  /// How long the test waited for the sleeper, in real time.
  public let limit: Duration

  /// How much longer each of the others slept by the manual clock, the shortest time first.
  public let sleeps: [Duration]

  init(for durations: ClosedRange<Duration>, after limit: Duration, sleeps: [Duration]) {
    self.durations = durations
    self.limit = limit
    self.sleeps = sleeps
  }

  /// What the test waited for, and who sleeps instead.
  public var description: String {
    let (least, most) = (durations.lowerBound, durations.upperBound)
    let wanted = least == most ? "\(least)" : "\(least) to \(most)"
    let found = sleeps.map { "\($0)" }.joined(separator: ", ")
    return "nobody sleeps for \(wanted), after \(limit) of real time: "
      + (sleeps.isEmpty ? "nobody sleeps at all" : "there are sleepers for \(found)")
  }
}

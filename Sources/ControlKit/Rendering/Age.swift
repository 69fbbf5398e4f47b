import SharedBreaker

/// How long ago something was, by the wall clock.
enum Age {
  static func text(of time: Timestamp, at now: Timestamp) -> String {
    let milliseconds = now.millisecondsSince1970.subtractingReportingOverflow(
      time.millisecondsSince1970
    ).partialValue
    // A clock that was set back makes the past look like the future.
    guard milliseconds >= 1_000 else { return "just now" }
    return SpokenDuration.format(.seconds(milliseconds / 1_000)) + " ago"
  }
}

import SharedBreaker

/// Times on a page, in UTC: exact for programs, shortened for people.
enum PageTime {
  /// The date and the time: `2026-11-21 10:58:48`.
  static func full(_ time: BreakerTimestamp) -> HTML {
    let text = time.description
    return element(time, text.prefix(10) + " " + text.prefix(19).dropFirst(11) + "Z")
  }

  /// The time, without the part of the date that is the same as the page's.
  static func brief(_ time: BreakerTimestamp, at now: BreakerTimestamp) -> HTML {
    element(time, Age.clock(of: time, at: now))
  }

  private static func element(_ time: BreakerTimestamp, _ words: String) -> HTML {
    "<time datetime=\"\(time.description)\">\(words)</time>"
  }
}

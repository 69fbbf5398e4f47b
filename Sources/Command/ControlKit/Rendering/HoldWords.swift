import BreakerDocuments
import SharedBreaker

/// Holds in words.
enum HoldWords {
  /// The time that is left of a hold, for a column; nil if calls are not held.
  static func left(_ snapshot: BreakerSnapshot, _ words: (Duration) -> String) -> String? {
    guard let hold = snapshot.hold else { return nil }
    return hold.endsIn > .zero ? words(hold.endsIn) : "due"
  }

  /// The hold as a part of a line about its breaker; nil if there is none.
  static func standing(_ snapshot: BreakerSnapshot) -> String? {
    guard let hold = snapshot.hold else { return nil }
    let reason = hold.reason.map { " (\(VisibleText.bare($0)))" } ?? ""
    if hold.endsIn > .zero { return "held for \(SpokenDuration.format(hold.endsIn))\(reason)" }
    return snapshot.rejection?.cause == .held
      ? "no longer held\(reason): the first call is under way"
      : "no longer held: one call goes first"
  }

  /// The facts of a hold for `show`; none if there is no hold.
  static func facts(
    _ snapshot: BreakerSnapshot, at now: BreakerTimestamp
  ) -> [(label: String, text: String)] {
    guard let hold = snapshot.hold else { return [] }
    let end =
      hold.endsIn > .zero
      ? "\(now.later(by: hold.endsIn)) (in \(SpokenDuration.format(hold.endsIn)))"
      : "over: one call goes first"
    var facts = [
      ("held until", end), ("held since", "\(hold.since) (\(Age.text(of: hold.since, at: now)))"),
    ]
    if let asked = hold.askedFor {
      facts.append(
        (
          "asked for",
          "\(SpokenDuration.format(asked)), held for \(SpokenDuration.format(hold.length)) by hold-max"
        ))
    }
    if hold.extensions > 0 {
      facts.append(("prolonged", CountedNoun.text(hold.extensions, "time")))
    }
    if let reason = hold.reason { facts.append(("held because", VisibleText.bare(reason))) }
    if let host = hold.host {
      facts.append(("told by", "host \(VisibleText.name(host))"))
    } else if let author = hold.setBy {
      facts.append(("held by", VisibleText.bare(author)))
    }
    return facts
  }
}

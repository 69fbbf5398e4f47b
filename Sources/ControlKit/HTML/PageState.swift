import SharedBreaker

/// The state of a breaker as one coloured word, with details after it.
struct PageState {
  var snapshot: BreakerSnapshot
  var now: BreakerTimestamp

  var html: HTML {
    let addition = addition.map { " <span class=\"note\">\($0)</span>" as HTML } ?? .nothing
    return "<span class=\"state \(weight)\">\(word)</span>\(addition)"
  }

  private var word: String {
    snapshot.mode == .automatic ? snapshot.state.wireName : snapshot.mode.wireName
  }

  /// The class in the style sheet.
  private var weight: HTML {
    if !snapshot.permits { return "bad" }
    return snapshot.mode == .automatic && snapshot.state == .closed ? "good" : "doubtful"
  }

  private var addition: HTML? {
    if snapshot.mode != .automatic {
      let end = snapshot.modeEndsIn.map {
        "until \(PageTime.brief(now.later(by: $0), at: now))" as HTML
      }
      return end ?? "until somebody removes it"
    }
    if snapshot.isNextCallProbe { return "the next call is a probe" }
    return snapshot.retryAfter.map { "retry from \(PageTime.brief(now.later(by: $0), at: now))" }
  }
}

import SharedBreaker

/// Everything about one breaker, folded until the reader opens it.
struct PageDetails {
  var breaker: PageBreaker
  var place: Int
  var page: BreakersPage

  private var snapshot: BreakerSnapshot { breaker.snapshot }

  /// The section; its link target is inside the fold, because a browser opens the fold only then.
  var html: HTML {
    """
    <details>
    <summary><bdi class="name">\(VisibleText.name(snapshot.name))</bdi> \
    \(PageState(snapshot: snapshot, now: page.now).html)</summary>
    <div class="inside" id="b\(place + 1)">
    \(strip)
    <dl>
    \(facts.map { "<dt>\($0.label)</dt><dd>\($0.value)</dd>\n" as HTML })</dl>
    \(PageHistory(now: page.now).table(of: shown, caption: caption))
    </div>
    </details>

    """
  }

  /// The timeline, from the first moment that is known.
  private var strip: HTML {
    // A damaged file can hold any time.
    let earliest = page.now.earlier(by: .seconds(10 * 365 * 86_400))
    let made = max(snapshot.createdAt ?? earliest, earliest)
    let all = Timeline(of: snapshot, history: breaker.history, from: made, to: page.now)
    guard let known = all.stretches.first(where: { $0.course != .unknown }) else { return .nothing }
    let timeline = Timeline(
      of: snapshot, history: breaker.history, from: known.start, to: page.now)
    return """
      <figure>
      \(PageTimeline(timeline: timeline, subject: "Whole history").html)
      <figcaption><span>\(PageTime.full(known.start))</span> \
      <span>\(PageTime.full(page.now))</span></figcaption>
      </figure>
      """
  }

  private var facts: [(label: String, value: HTML)] {
    let words = BreakerDetails(
      snapshot: snapshot, declarations: [], history: breaker.history, now: page.now)
    var facts: [(label: String, value: HTML)] = []
    func add(_ label: String, _ value: HTML?) {
      if let value { facts.append((label, value)) }
    }
    if snapshot.mode != .automatic {
      add("state", "\(snapshot.state.wireName)")
      add("mode set by", snapshot.modeSetBy.map { "<bdi>\($0)</bdi>" })
      add("mode since", snapshot.modeSetAt.map { PageTime.full($0) })
      let end = snapshot.modeEndsIn.map { PageTime.full(page.now.later(by: $0)) }
      add("mode until", end ?? "somebody removes it")
      add("reason", snapshot.modeReason.map { "<q>\($0)</q>" })
    }
    add("last error", snapshot.lastError.map { "<q>\($0)</q>" })
    add("last failure", snapshot.lastFailureAt.map { PageTime.full($0) })
    add("failures", "\(snapshot.consecutiveFailures) consecutive")
    if snapshot.policy.failureRate != nil || snapshot.policy.slowRate != nil {
      add("window", "\(words.window)")
    }
    add("totals", "\(words.totals)")
    add("trips", "\(snapshot.trips)")
    add("opened", snapshot.openedAt.map { PageTime.full($0) })
    add("created", snapshot.createdAt.map { PageTime.full($0) })
    add("policy", policy)
    return facts
  }

  /// The words of the policy; an operator's stand out, because they are easily forgotten.
  private var policy: HTML {
    let words = PolicyKey.allCases.compactMap { key -> HTML? in
      guard let text = snapshot.policy.text(for: key) else { return nil }
      let source = snapshot.source(of: key)
      let word: HTML = "\(key.rawValue)=\(text)"
      guard source == .operator else { return "<li><code>\(word)</code></li>" }
      return "<li><code>\(word)</code> <span class=\"note\">\(source.wireName)</span></li>"
    }
    return "<ul class=\"words\">\(words)</ul>"
  }

  private var shown: [HistoryEntry] { breaker.history.suffix(page.limit) }

  private var caption: String {
    let all = breaker.history.count
    if shown.count == all { return "History, newest first" }
    return "History, the newest \(shown.count) of \(all) entries"
  }
}

import SharedBreaker

/// One line for each breaker; those that need a look come in a list of their own.
struct PageOverview {
  var page: BreakersPage

  var html: HTML {
    let breakers = Array(page.breakers.enumerated())
    let worrying = breakers.filter { Self.isWorrying($1.snapshot) }
    let others = breakers.filter { !Self.isWorrying($1.snapshot) }
    let flapping = others.filter { isFlapping($1) }
    let usual = others.filter { !isFlapping($1) }
    let apart: HTML =
      flapping.isEmpty
      ? .nothing : "\(section("flapping", Self.flappingTitle, flapping, nobody: ""))\n"
    return """
      \(PageTimeline.legend)
      \(section("worrying", "Needs attention", worrying, nobody: "Nothing: every breaker is closed and automatic."))
      \(apart)\(section("usual", "Healthy", usual, nobody: "None."))
      """
  }

  private static func isWorrying(_ snapshot: BreakerSnapshot) -> Bool {
    !snapshot.permits || snapshot.state != .closed || snapshot.mode != .automatic
  }

  /// The title says what it means, because the word alone would not.
  private static let flappingTitle =
    "Flapping: closed now, and opened \(Flapping.outages) times or more in the last "
    + SpokenDuration.format(Flapping.span)

  private func isFlapping(_ breaker: PageBreaker) -> Bool {
    Flapping(history: breaker.history, now: page.now).isSo
  }

  private func section(
    _ id: HTML, _ title: String, _ breakers: [(offset: Int, element: PageBreaker)], nobody: String
  ) -> HTML {
    let content: HTML = breakers.isEmpty ? "<p>\(nobody)</p>" : table(of: breakers)
    return """
      <section aria-labelledby="\(id)">
      <h2 id="\(id)">\(title) (\(breakers.count))</h2>
      \(content)
      </section>
      """
  }

  private func table(of breakers: [(offset: Int, element: PageBreaker)]) -> HTML {
    let titles = ["Breaker", "State", spanWords, "Trips", "Last failure"]
    return """
      <table class="overview" role="table">
      <caption>States from \(PageTime.full(start)) to \(PageTime.full(page.now))</caption>
      <thead role="rowgroup"><tr role="row">\(titles.map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(breakers.map { row($1, at: $0) })</tbody>
      </table>
      """
  }

  private func row(_ breaker: PageBreaker, at place: Int) -> HTML {
    let snapshot = breaker.snapshot
    let timeline = Timeline(
      of: snapshot, history: breaker.history, from: start, to: page.now)
    let failure = snapshot.lastFailureAt.map { PageTime.brief($0, at: page.now) } ?? "never"
    return """
      <tr role="row"><th role="rowheader" scope="row">\
      <a href="#b\(place + 1)"><bdi>\(VisibleText.name(snapshot.name))</bdi></a></th>\
      <td role="cell">\(PageState(snapshot: snapshot, now: page.now).html)</td>\
      <td role="cell">\(PageTimeline(timeline: timeline, subject: spanWords).html)</td>\
      <td role="cell" class="count" data-label="Trips">\(snapshot.trips)</td>\
      <td role="cell" data-label="Last failure">\(failure)</td></tr>

      """
  }

  private var start: BreakerTimestamp { page.now.earlier(by: page.span) }

  private var spanWords: String { "Last \(SpokenDuration.format(page.span))" }
}

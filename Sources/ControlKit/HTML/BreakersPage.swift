import SharedBreaker

/// Breakers and what happened to them, as one HTML file that needs no other.
struct BreakersPage {
  /// The host whose breakers they are.
  var host: String

  /// The path of their store.
  var store: String

  /// When they were looked at: a page does not age with its reader, so it tells times, not ages.
  var now: Timestamp

  /// How far back the timelines of the overview reach.
  var span: Duration

  /// How many entries of its history are listed for each breaker.
  var limit: Int

  /// The breakers, the worst first.
  var breakers: [PageBreaker]

  /// The latest of all that happened, oldest first.
  var latest: [HistoryEntry]
}

extension BreakersPage {
  var html: String {
    let document: HTML = """
      <!doctype html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <meta name="robots" content="noindex, nofollow">
      <meta name="referrer" content="no-referrer">
      <meta name="generator" content="cbctl \(ControlKit.version)">
      <title>\(title) · \(host)</title>
      <style>
      \(PageStyle.sheet)
      </style>
      </head>
      <body>
      <header>
      <h1>Breakers of <bdi>\(host)</bdi></h1>
      <p class="lead">\(SummaryLine.text(of: breakers.map(\.snapshot), painter: .plain))</p>
      <p class="note">As of \(PageTime.full(now)). Times are in UTC. Store: <code>\(store)</code></p>
      </header>
      <main>
      \(body)
      </main>
      </body>
      </html>

      """
    return document.text
  }

  /// What is worth seeing among many tabs.
  private var title: String {
    let count = breakers.count { !$0.snapshot.permits }
    let all = StateLine.counted(Int64(breakers.count), "breaker")
    return count == 0 ? all : "\(count) of \(all) rejecting"
  }

  private var body: HTML {
    if breakers.isEmpty { return "<p>There is no breaker to show.</p>" }
    return """
      \(PageOverview(page: self).html)
      <section aria-labelledby="latest">
      <h2 id="latest">What happened last</h2>
      \(PageHistory(now: now, places: places).table(of: latest, caption: "Newest first"))
      </section>
      <section aria-labelledby="each">
      <h2 id="each">Each breaker</h2>
      \(breakers.enumerated().map { PageDetails(breaker: $1, place: $0, page: self).html })
      </section>
      """
  }

  /// Where a breaker stands on the page, by its name.
  private var places: [NameBytes: Int] {
    Dictionary(breakers.enumerated().map { (NameBytes($1.snapshot.name), $0) }) { first, _ in first
    }
  }
}

/// One of the breakers of a page.
struct PageBreaker {
  var snapshot: BreakerSnapshot

  /// All that is kept of what happened to it, oldest first.
  var history: [HistoryEntry]
}

extension Painter {
  /// For text that is painted in another way.
  static let plain = Painter(isOn: false)
}

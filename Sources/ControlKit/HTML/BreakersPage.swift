import SharedBreaker

/// Breakers and their history, as one HTML file that needs no other file.
struct BreakersPage {
  /// The name of the host.
  var host: String

  /// The path of the store.
  var store: String

  /// When the page was made; it shows times and not ages, because it does not update itself.
  var now: BreakerTimestamp

  /// How far back the timelines of the overview go.
  var span: Duration

  /// How many history entries each breaker lists.
  var limit: Int

  /// The fleet that the store belongs to; nil if it belongs to none.
  var fleet: PageFleet?

  /// The breakers, the worst first.
  var breakers: [PageBreaker]

  /// The latest entries of all breakers, oldest first.
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

  /// The title, which shows among many tabs how many breakers reject calls.
  private var title: String {
    let count = breakers.count { !$0.snapshot.permits }
    let all = CountedNoun.text(breakers.count, "breaker")
    return count == 0 ? all : "\(count) of \(all) rejecting"
  }

  private var body: HTML {
    let fleet = fleet?.html ?? .nothing
    if breakers.isEmpty { return "<p>There are no breakers to show.</p>\(fleet)" }
    return """
      \(PageOverview(page: self).html)\(fleet)
      <section aria-labelledby="latest">
      <h2 id="latest">Latest changes</h2>
      \(PageHistory(now: now, places: places).table(of: latest, caption: "Newest first"))
      </section>
      <section aria-labelledby="each">
      <h2 id="each">Every breaker in detail</h2>
      \(breakers.enumerated().map { PageDetails(breaker: $1, place: $0, page: self).html })
      </section>
      """
  }

  /// The position of each breaker on the page, by name.
  private var places: [NameBytes: Int] {
    Dictionary(breakers.enumerated().map { (NameBytes($1.snapshot.name), $0) }) { first, _ in first
    }
  }
}

/// One breaker of a page.
struct PageBreaker {
  var snapshot: BreakerSnapshot

  /// Its whole history as far as it is kept, oldest first.
  var history: [HistoryEntry]
}

extension Painter {
  /// A painter without colours, because the page has its own.
  static let plain = Painter(isOn: false)
}

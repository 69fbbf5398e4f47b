import ProgramKit
import SharedBreaker

/// The fleet that a store belongs to: where breakers are not closed, and which hosts are silent.
struct PageFleet {
  /// The name of the fleet.
  var name: String

  /// The breakers that are not closed and automatic everywhere; nil if the fleet cannot be seen.
  var overview: FleetOverview?

  /// How the relay of this host does, in words.
  var relay: String

  var html: HTML {
    """

    <section aria-labelledby="fleet">
    <h2 id="fleet">Fleet <bdi>\(VisibleText.name(name))</bdi></h2>
    \(overview.map(breakers) ?? .nothing)<p class="note">Relay of this host: \(relay)</p>
    </section>
    """
  }

  private func breakers(_ overview: FleetOverview) -> HTML {
    let count = CountedNoun.text(overview.hosts.count, "host")
    guard !overview.rows.isEmpty else {
      return "<p>Every breaker is closed and automatic on \(count).</p>\n\(silent(overview))"
    }
    let rows = overview.rows.map { row($0, on: overview.hosts) }
    return """
      <table class="fleet" role="table">
      <caption>Breakers that are not closed and automatic on all of \(count)</caption>
      <thead role="rowgroup"><tr role="row">\(["Breaker", "Hosts"].map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(rows)</tbody>
      </table>
      \(silent(overview))
      """
  }

  private func row(_ row: FleetOverview.Row, on hosts: [RelayStatus.Host]) -> HTML {
    let phrases: [HTML] = row.phrases(on: hosts).map { "<li>\($0)</li>" }
    return """
      <tr role="row"><th role="rowheader" scope="row"><bdi>\(VisibleText.name(row.name))</bdi></th>\
      <td role="cell"><ul class="words">\(phrases)</ul></td></tr>

      """
  }

  private func silent(_ overview: FleetOverview) -> HTML {
    guard !overview.silent.isEmpty else { return .nothing }
    let hosts = overview.silent.map { host in
      VisibleText.name(host.name)
        + (host.silence.map { " for \(SpokenDuration.format($0))" } ?? "")
    }
    return """
      <p><span class="state doubtful">silent</span> \(hosts.joined(separator: ", "))</p>

      """
  }
}

import BreakerDocuments
import ProgramKit
import SharedBreaker

extension CommandSpec {
  static let page = CommandSpec(
    name: "page",
    summary: "write an HTML page about breakers and their history",
    arguments: [.patterns],
    options: [
      OptionSpec(
        name: "output", kind: .path,
        summary: "write to this file instead of standard output"),
      OptionSpec(
        name: "mode", kind: .permissions, summary: "permissions of the file (600)"),
      OptionSpec(
        name: "since", kind: .past,
        summary: "how far back the overview reaches, such as 6h, 09:00 or yesterday (1d)"),
      OptionSpec(
        name: "limit", kind: .count,
        summary: "list the newest N entries of each history (5 to 100, fewer if there are many "
          + "breakers)"),
    ],
    details: [
      "The page is one file that runs no script and loads nothing. It shows the present and past "
        + "states of each breaker, what happened, why, and who did it, as of the time at which it "
        + "was written. The list of changes can be filtered by kind and by breaker.",
      FileReplacement.rule,
      "The page contains errors and reasons, so only the file's owner may read it unless you give a "
        + "--mode.",
    ],
    examples: [
      Example(
        "cbctl page --output breakers.html", "write a page to look at, or to attach to a report"),
      Example(
        "cbctl page 'payments-*' --output /srv/www/breakers.html --mode 644",
        "write a page for a web server"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "the page could not be written"]
  ) { context, parsed throws(ControlError) in
    try context.checkPage(parsed)
    let page = try BreakersPage(context, parsed)
    let text = page.html
    if page.breakers.isEmpty { context.note("no breaker matches: the page shows none") }
    try context.write(text, of: page.breakers.count, parsed)
    return .done
  }
}

extension CommandContext {
  /// Refuses options that contradict each other, before a page is made.
  func checkPage(_ parsed: ParsedCommand) throws(ControlError) {
    let isFile = parsed.text("output") != nil
    if parsed.has("mode"), !isFile {
      throw .usage(
        "--mode without --output", "it sets the permissions of that file", help: parsed.spec.name)
    }
    if global.isJSON, !isFile {
      throw .usage(
        "--json without --output", "a page is HTML; status and history print JSON",
        help: parsed.spec.name)
    }
  }

  /// Writes a page about some breakers where the command line says.
  func write(_ page: String, of breakers: Int, _ parsed: ParsedCommand) throws(ControlError) {
    guard let output = parsed.text("output") else { return print(page) }
    var file = try FileReplacement(of: output, mode: UInt32(parsed.number("mode") ?? 0o600))
    file.write(page)
    try file.finish()
    guard global.isJSON else { return }
    print(
      .object([
        .init("output", .string(output)), .init("bytes", .integer(Int64(page.utf8.count))),
        .init("breakers", .integer(Int64(breakers))),
      ]))
  }
}

extension BreakersPage {
  /// How many history entries a page lists: about three megabytes with reasons of usual length.
  private static let entriesOfPage = 8_000
  /// Reads the breakers that the command line asks for.
  fileprivate init(_ context: CommandContext, _ parsed: ParsedCommand) throws(ControlError) {
    let patterns = parsed.patterns
    let snapshots = try context.snapshots(fitting: patterns)
    var entries: [HistoryEntry] = []
    if !patterns.isEmpty, patterns.allSatisfy(\.isName) {
      for snapshot in snapshots {
        entries += try context.ask { store throws(StoreError) in
          try store.history(of: snapshot.name)
        }
      }
      entries.sort { $0.id < $1.id }
    } else {
      entries = try context.ask { store throws(StoreError) in try store.history() }
      entries = entries.filter { NamePattern.matches($0.name, patterns) }
    }
    let beginning = try context.beginning(parsed, help: "page")
    let now = context.now()
    let histories = Dictionary(grouping: entries) { Array($0.name.utf8) }
    let usualLimit = min(100, max(5, Self.entriesOfPage / max(1, snapshots.count)))
    self.init(
      host: ThisProcess.hostName() ?? "this host", store: context.store.path, now: now,
      span: beginning.map {
        .milliseconds(now.millisecondsSince1970 - $0.millisecondsSince1970)
      } ?? .seconds(86_400),
      limit: parsed.number("limit").map { Int($0) } ?? usualLimit,
      fleet: try context.pageFleet(),
      breakers: WorryOrder.sorted(snapshots).map {
        PageBreaker(snapshot: $0, history: histories[Array($0.name.utf8)] ?? [])
      },
      latest: entries)
  }
}

extension CommandContext {
  /// The fleet on a page; if the relay gives no answer, the page says why.
  fileprivate func pageFleet() throws(ControlError) -> PageFleet? {
    guard let standing = try fleetStanding() else { return nil }
    do throws(ControlError) {
      let status = try answer(of: standing)
      let overview = FleetOverview(of: status, isComplete: false)
      let text = FleetText(status: status, overview: overview, now: now())
      return PageFleet(name: standing.fleet, overview: overview, relay: text.relayWords)
    } catch {
      return PageFleet(name: standing.fleet, overview: nil, relay: error.description)
    }
  }
}

/// Markup that escapes every text interpolated into it; only other markup is inserted unchanged.
///
/// So no oversight can turn text from outside into markup.
struct HTML: ExpressibleByStringInterpolation, Sendable {
  private(set) var text: String

  init(stringLiteral text: String) { self.text = text }

  init(stringInterpolation parts: Interpolation) { text = parts.text }

  static let nothing: HTML = ""

  struct Interpolation: StringInterpolationProtocol {
    fileprivate var text = ""

    init(literalCapacity: Int, interpolationCount: Int) {
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ markup: String) { text += markup }

    mutating func appendInterpolation(_ markup: HTML) { text += markup.text }

    mutating func appendInterpolation(_ parts: [HTML]) {
      for part in parts { text += part.text }
    }

    mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

    mutating func appendInterpolation(_ outside: String) { text += HTML.escaped(outside) }
  }

  /// The text as the content of an element or of an attribute in quotes.
  private static func escaped(_ outside: String) -> String {
    let text = VisibleText.bare(outside)
    guard text.utf8.contains(where: isMarkup) else { return text }
    var result: [UInt8] = []
    result.reserveCapacity(text.utf8.count + 16)
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "&"): result += "&amp;".utf8
      case UInt8(ascii: "<"): result += "&lt;".utf8
      case UInt8(ascii: ">"): result += "&gt;".utf8
      case UInt8(ascii: "\""): result += "&quot;".utf8
      case UInt8(ascii: "'"): result += "&#39;".utf8
      default: result.append(byte)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  private static func isMarkup(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""),
      UInt8(ascii: "'"):
      true
    default: false
    }
  }
}

/// The style sheet: light or dark as the reader prefers, for small and large screens.
enum PageStyle {
  static let sheet: HTML = """
    :root {
      color-scheme: light dark;
      --paper: #ffffff; --raised: #f5f6f8; --line: #d5d9df; --ink: #1a1e24; --faint: #565f6b;
      --link: #0b57a4; --bad: #b3261e; --doubtful: #855600; --good: #1f7040;
      --fill-bad: #d03a31; --fill-opened: #e07a5f; --fill-doubtful: #b97800; --fill-held: #8c63b8; --fill-due: #5b7fc7;
      --fill-good: #3a9a62; --fill-unknown: #8b929c;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --paper: #14171b; --raised: #1d2127; --line: #373d46; --ink: #e7eaee; --faint: #a4adb9;
        --link: #8fc1ff; --bad: #ff8f85; --doubtful: #f7bd55; --good: #75d39a;
        --fill-bad: #f2584d; --fill-opened: #b9604a; --fill-doubtful: #d99a2b; --fill-held: #ab86d6; --fill-due: #7d9fe6;
        --fill-good: #2f9b60; --fill-unknown: #737c88;
      }
    }
    * { box-sizing: border-box; }
    html { text-size-adjust: 100%; -webkit-text-size-adjust: 100%; }
    body {
      margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; max-width: 80rem;
      background: var(--paper); color: var(--ink);
      font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif;
    }
    h1 { margin: 0; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
    h2 { margin: 2.25rem 0 .5rem; font-size: 1.2rem; }
    .lead { margin: .35rem 0 0; font-size: 1.1rem; }
    .name { font-weight: 600; overflow-wrap: anywhere; }
    .note, caption, figcaption, dt { color: var(--faint); font-size: .875rem; }
    header .note { margin: .25rem 0 0; overflow-wrap: anywhere; }
    a { color: var(--link); text-underline-offset: .15em; }
    :focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 3px; }
    code { font: .875rem/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
    q { quotes: none; }
    q, .why { overflow-wrap: anywhere; unicode-bidi: isolate; }
    time { white-space: nowrap; font-variant-numeric: tabular-nums; }

    .state { display: inline-block; font-weight: 600; white-space: nowrap; }
    .state::before {
      content: ""; display: inline-block; width: .65em; height: .65em; margin-right: .45em;
      border-radius: 50%; background: currentColor;
    }
    .state.doubtful::before { border-radius: 0; transform: rotate(45deg) scale(.9); }
    .state.bad::before { border-radius: 0; }
    .state.bad { color: var(--bad); }
    .state.doubtful { color: var(--doubtful); }
    .state.good { color: var(--good); }

    .strip { display: block; width: 100%; height: 1.5rem; shape-rendering: crispEdges; }
    path.bad { fill: var(--fill-bad); }
    path.comb { shape-rendering: auto; }
    path.opened { fill: var(--fill-opened); }
    path.doubtful { fill: var(--fill-doubtful); }
    path.held { fill: var(--fill-held); }
    path.due { fill: var(--fill-due); }
    path.good { fill: var(--fill-good); }
    path.unknown { fill: var(--fill-unknown); }
    .axis {
      display: flex; justify-content: space-between; font-size: .75rem; font-weight: 400;
      font-variant-numeric: tabular-nums;
    }
    .axis.below { display: none; color: var(--faint); }
    .legend {
      display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 1.25rem 0 0; padding: 0;
      list-style: none; font-size: .875rem;
    }
    .legend .strip { display: inline-block; width: 1rem; height: 1rem; vertical-align: -.15em; }

    table { width: 100%; border-collapse: collapse; }
    caption { text-align: left; padding-bottom: .35rem; }
    th, td { padding: .45rem .75rem .45rem 0; text-align: left; vertical-align: top; }
    th:last-child, td:last-child { padding-right: 0; }
    thead th { color: var(--faint); font-size: .875rem; font-weight: 600; }
    tr { border-bottom: 1px solid var(--line); }
    tbody th { font-weight: 600; overflow-wrap: anywhere; }
    .overview { table-layout: fixed; }
    .overview thead .c-breaker { width: 20%; }
    .overview thead .c-state { width: 19%; }
    .overview thead .c-busy { width: 5.5rem; }
    .overview thead .c-queue, .overview thead .c-trips { width: 4.25rem; }
    .overview thead .c-begun, .overview thead .c-retries { width: 7.5rem; }
    .overview thead .c-failure { width: 8rem; }
    .overview .c-busy, .overview .c-queue, .overview .c-begun, .overview .c-retries, .overview .c-trips { text-align: right; font-variant-numeric: tabular-nums; }
    .overview .note { display: block; }
    .fleet tbody th { width: 22%; }
    .fleet td { overflow-wrap: anywhere; }
    .wide { overflow-x: auto; }
    .matrix th { overflow-wrap: anywhere; min-width: 6rem; }
    .matrix details { margin: 0; }
    .troubles { margin: 0; padding: 0; list-style: none; overflow-wrap: anywhere; }
    .history { font-size: .9375rem; }
    .history td { overflow-wrap: anywhere; min-width: 6rem; }
    .history td.what { min-width: 12rem; }
    .history td.why { width: 40%; }
    .who i { font-style: normal; color: var(--faint); font-size: .875em; white-space: nowrap; }

    .filters { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; margin: 0 0 .75rem; }
    .filters fieldset { display: flex; flex-wrap: wrap; gap: .25rem 1rem; border: 0; margin: 0; padding: 0; }
    .filters legend { float: left; padding: 0 .25rem 0 0; color: var(--faint); }
    .filters select { max-width: 16rem; font: inherit; }
    @supports not selector(:has(a)) { .filters { display: none; } }
    .scroll { max-height: 34rem; overflow: auto; border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; }

    details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; }
    summary { padding: .6rem .9rem; cursor: pointer; border-radius: .5rem; }
    summary:hover, details[open] > summary { background: var(--raised); }
    summary .state { margin-left: .75rem; }
    .inside { padding: .9rem; scroll-margin-top: 4rem; }
    details:has(:target) { border-color: var(--link); }
    figure { margin: 0 0 1rem; }
    figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
    dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem;
      align-items: baseline; margin: 0 0 1.25rem; }
    dd { margin: 0; overflow-wrap: anywhere; }
    .words { display: flex; flex-wrap: wrap; gap: 0 1.25rem; margin: 0; padding: 0; list-style: none; }

    @media (max-width: 64rem) {
      .axis .between { display: none; }
    }
    @media (max-width: 52rem) {
      table, tbody, caption { display: block; }
      thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
      th, td { padding: 0; }
      tr { display: grid; grid-template-columns: auto 1fr; gap: .1rem 1rem; padding: .6rem 0; }
      .overview tr { grid-template-columns: minmax(35%, 1fr) auto; }
      .overview td:not(.c-state, .c-course) { font-size: .875rem; color: var(--faint); }
      .overview .c-course { grid-column: 1 / -1; }
      .overview .c-state, .overview .c-queue, .overview .c-failure { text-align: right; }
      .overview .c-busy, .overview .c-begun, .overview .c-retries, .overview .c-trips { text-align: left; }
      .overview .c-begun, .overview .c-retries { grid-column: 1 / -1; }
      .overview .none { display: none; }
      .axis.below { display: flex; }
      .matrix tr { grid-template-columns: minmax(0, 1fr); }
      td[data-label]::before { content: attr(data-label) " "; color: var(--faint); }
      .matrix td { overflow-wrap: anywhere; }
      .matrix td::before { font-weight: 600; margin-right: .5rem; }
      .history tr { grid-template-columns: max-content minmax(0, 1fr); }
      .history td.what { min-width: 0; }
      .history td.why { width: auto; }
      .history td.why:empty { display: none; }
      .history td.why, .history td.who, .history td.name ~ td { grid-column: 1 / -1; }
    }
    @media print {
      body { max-width: none; padding: 0; }
      tr, details { break-inside: avoid; }
      .filters { display: none; }
      .scroll { max-height: none; border: 0; padding: 0; }
    }
    """
}

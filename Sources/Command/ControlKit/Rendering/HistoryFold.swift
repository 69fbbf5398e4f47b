import SharedBreaker

/// A row of a history for people: an entry, or many that would say the same again and again.
enum HistoryRow: Sendable, Hashable {
  case entry(HistoryEntry)
  case cycles(HistoryCycles)

  var name: String {
    switch self {
    case .entry(let entry): entry.name
    case .cycles(let cycles): cycles.first.name
    }
  }

  /// When it happened, or began.
  var at: BreakerTimestamp {
    switch self {
    case .entry(let entry): entry.at
    case .cycles(let cycles): cycles.first.at
    }
  }

  /// How many entries the row stands for.
  var count: Int {
    switch self {
    case .entry: 1
    case .cycles(let cycles): cycles.count
    }
  }

  /// The rows of entries, which are oldest first.
  ///
  /// The entries that a breaker makes by itself, outage after outage and probe after probe, are one
  /// row between the first and the last entry, which say how it began and how it ended. Whatever a
  /// person does to the breaker has a row of its own.
  static func folded(_ entries: [HistoryEntry]) -> [HistoryRow] {
    var runs: [[UInt8]: [Int]] = [:]
    var hidden: [Int: HistoryCycles] = [:]
    var isHidden = [Bool](repeating: false, count: entries.count)
    func fold(_ run: [Int]) {
      guard run.count >= HistoryCycles.shortestRun else { return }
      let inner = run.dropFirst().dropLast()
      guard let first = inner.first, let last = inner.last else { return }
      var cycles = HistoryCycles(first: entries[first], last: entries[last])
      for index in inner {
        cycles.add(entries[index])
        isHidden[index] = true
      }
      hidden[first] = cycles
    }
    for (index, entry) in entries.enumerated() {
      let name = Array(entry.name.utf8)
      if HistoryCycles.canHave(entry) {
        runs[name, default: []].append(index)
      } else if let run = runs.removeValue(forKey: name) {
        fold(run)
      }
    }
    for run in runs.values { fold(run) }
    return entries.indices.compactMap { index in
      if let cycles = hidden[index] { return .cycles(cycles) }
      return isHidden[index] ? nil : .entry(entries[index])
    }
  }
}

/// Entries of one breaker, one after the other, that are shown as one row.
struct HistoryCycles: Sendable, Hashable {
  /// How many entries in a row there must be, with the first and the last, which are shown.
  static let shortestRun = 6

  var first: HistoryEntry
  var last: HistoryEntry
  private(set) var count = 0
  private(set) var outages = 0
  private(set) var failedProbes = 0

  init(first: HistoryEntry, last: HistoryEntry) { (self.first, self.last) = (first, last) }

  mutating func add(_ entry: HistoryEntry) {
    count += 1
    if entry.beginsOutage {
      outages += 1
    } else if case .transition(.halfOpen, .open) = entry.change {
      failedProbes += 1
    }
  }

  /// The entries in words: `40 outages, 12 failed probes`.
  var words: String {
    var parts: [String] = []
    if outages > 0 { parts.append(CountedNoun.text(outages, "outage")) }
    if failedProbes > 0 { parts.append(CountedNoun.text(failedProbes, "failed probe")) }
    return parts.isEmpty ? "\(count) changes of the state" : parts.joined(separator: ", ")
  }

  /// Whether an entry is of the kind that repeats, and was not caused by a person.
  static func canHave(_ entry: HistoryEntry) -> Bool {
    let isOfPerson = entry.user != nil && entry.command == nil
    switch entry.change {
    case .transition, .suspicion, .probe: return !isOfPerson
    default: return false
    }
  }
}

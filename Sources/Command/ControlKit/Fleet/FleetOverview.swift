import ProgramKit
import SharedBreaker

/// The breakers of a fleet, each with how it stands on every host that answers.
struct FleetOverview {
  /// One breaker of the fleet.
  struct Row {
    var name: String

    /// How it stands on each host, by the host's index; a host without the breaker is left out.
    var standings: [Int: RelayStatus.Standing]
  }

  /// The hosts that are not silent, by name.
  private(set) var hosts: [RelayStatus.Host]

  /// The hosts that have gone silent, by name.
  private(set) var silent: [RelayStatus.Host]

  /// The breakers that were asked for, the worst first.
  private(set) var rows: [Row]

  /// Whether only some breakers were asked for.
  let isOfSome: Bool

  /// Whether everything is shown, however long it is.
  let isComplete: Bool

  /// How many breakers are left out because they are closed and automatic on every host.
  private(set) var usual = 0

  /// The names of all breakers that any host has described.
  private(set) var names: [String]

  /// Chooses breakers of a fleet.
  ///
  /// - Parameters:
  ///   - status: The answer of the relay.
  ///   - patterns: The breakers that were asked for; all if it is empty.
  ///   - isComplete: Whether to keep breakers that are closed and automatic on every host.
  init(of status: RelayStatus, fitting patterns: [NamePattern] = [], isComplete: Bool = true) {
    isOfSome = !patterns.isEmpty
    self.isComplete = isComplete
    let all = (status.hosts ?? []).sorted { $0.name < $1.name }
    let hosts = all.filter { !$0.isSilent }
    self.hosts = hosts
    silent = all.filter(\.isSilent)
    var found: [[UInt8]: Row] = [:]
    for (place, host) in hosts.enumerated() {
      for standing in host.breakers {
        found[Array(standing.name.utf8), default: Row(name: standing.name, standings: [:])]
          .standings[place] = standing
      }
    }
    names = found.values.map(\.name).sorted()
    rows = found.values.filter { NamePattern.matches($0.name, patterns) }
      .sorted { $0.isWorse(than: $1) }
    // A breaker that was asked for by its name or a pattern is always shown.
    guard !isComplete, patterns.isEmpty else { return }
    let count = rows.count
    rows.removeAll(where: \.isUsual)
    usual = count - rows.count
  }
}

extension FleetOverview.Row {
  /// Whether the breaker is closed and automatic on every host.
  var isUsual: Bool { standings.values.allSatisfy(\.isUsual) }

  fileprivate func isWorse(than other: FleetOverview.Row) -> Bool {
    let (worst, worstOfOther) = (worst, other.worst)
    if worst.rank != worstOfOther.rank { return worst.rank < worstOfOther.rank }
    if worst.count != worstOfOther.count { return worst.count > worstOfOther.count }
    return name < other.name
  }

  /// The worst standing, and on how many hosts the breaker has it.
  private var worst: (rank: Int, count: Int) {
    let ranks = standings.values.map(\.rank)
    let least = ranks.min() ?? 0
    return (least, ranks.count { $0 == least })
  }

  /// The standings that stand out, the worst first: `open on 3 of 20 hosts: host-a, host-b,
  /// host-c`.
  func phrases(on hosts: [RelayStatus.Host]) -> [String] {
    let groups = Dictionary(grouping: standings.sorted { $0.key < $1.key }) { $0.value.word }
    let unusual = groups.values.filter { !$0[0].value.isUsual }
      .sorted { ($0[0].value.rank, $0[0].value.word) < ($1[0].value.rank, $1[0].value.word) }
    let told = unusual.isEmpty ? Array(groups.values) : unusual
    return told.map { group in
      let word = VisibleText.bare(group[0].value.word)
      if group.count == hosts.count {
        switch hosts.count {
        case 1: return "\(word) on the only host"
        case 2: return "\(word) on both hosts"
        default: return "\(word) on all \(hosts.count) hosts"
        }
      }
      let phrase = "\(word) on \(group.count) of \(hosts.count) hosts"
      if group[0].value.isUsual { return phrase }
      return "\(phrase): \(Self.list(group.map { hosts[$0.key].name }))"
    }
  }

  /// How many hosts a phrase names.
  static let mostNames = 8

  static func list(_ names: [String], atMost most: Int = mostNames) -> String {
    // The count of omitted names takes as much room as one name.
    let shown = names.count > most + 1 ? names.prefix(most) : names[...]
    let list = shown.map(VisibleText.name).joined(separator: ", ")
    return shown.count == names.count ? list : "\(list) and \(names.count - shown.count) more"
  }
}

extension RelayStatus.Standing {
  /// The mode if one is set, otherwise the state, or that the next call is a probe.
  var word: String {
    if mode != BreakerMode.automatic.wireName { return mode }
    return isDue ? "due" : state
  }

  var isUsual: Bool {
    mode == BreakerMode.automatic.wireName && state == BreakerState.closed.wireName
  }

  /// Whether the breaker permits some calls, and yet stands out.
  var isDoubtful: Bool { rank > 1 && !isUsual }

  /// Whether the breaker is open and its open time is over.
  var isDue: Bool { state == BreakerState.open.wireName && openEndsIn == .zero }

  /// The word, and for an open breaker how long it rejects calls.
  var words: String {
    guard word == BreakerState.open.wireName, let openEndsIn else { return word }
    return "\(word) \(SpokenDuration.format(openEndsIn))"
  }

  /// The place in the order of the words, the worst first; an unknown word comes before those that
  /// permit calls.
  fileprivate var rank: Int { Self.order.firstIndex(of: word) ?? 3 }

  private static let order = [
    BreakerMode.forcedOpen.wireName, BreakerState.open.wireName, BreakerState.halfOpen.wireName,
    "", "due", BreakerMode.forcedClosed.wireName, BreakerMode.observe.wireName,
    BreakerState.closed.wireName,
  ]

  var color: Color {
    switch rank {
    case 0, 1: .red
    case Self.order.count - 1: .green
    default: .yellow
    }
  }
}

@_spi(Relay) internal import BreakerCore

/// Checks whether the rows hold only what the library writes.
struct RowExamination {
  let reader: Connection

  /// The counts of a breaker, which the library keeps between 0 and `highest`.
  private static let counts = [
    "generation", "consecutive_failures", "growth", "trips", "last_lease", "probe_successes",
    "probe_failures", "successes", "failures", "ignored", "rejections", "slow", "would_reject",
    "busy", "lost_calls",
  ]
  private static let highest = Int64.max / 16
  static let areOutOfRange = counts.map { "\($0) < 0 OR \($0) > \(highest)" }
    .joined(separator: " OR ")
  static let intoRange = counts.map { "\($0) = max(0, min(\($0), \(highest)))" }
    .joined(separator: ", ")

  static let orphans = [
    "lease": "breaker NOT IN (SELECT id FROM breaker)",
    "declaration": "breaker NOT IN (SELECT id FROM breaker)",
  ]

  /// Commands of a fleet that no host can use, by table.
  static let commands = [
    "fleet_command": areUnusable, "fleet_outbox": areUnusable,
    "fleet": "stamp NOT BETWEEN 0 AND \(FleetCommand.highestStamp)",
  ]
  private static let areUnusable =
    "stamp NOT BETWEEN 1 AND \(FleetCommand.highestStamp)"
    + " OR action NOT IN ('trip', 'reset', 'force', 'policy')"

  /// How many leases a breaker has, which must equal the number in its row.
  static let leaseCount = "(SELECT count(*) FROM lease WHERE lease.breaker = breaker.id)"

  /// The damage of the rows, by kind.
  struct Damage {
    /// The ids of breakers whose names are not allowed.
    var names: [Int64] = []

    /// The ids of breakers whose policy cannot be read, by column.
    var policies: [String: [Int64]] = ["code_policy": [], "operator_policy": []]
    var numbers: Int64 = 0
    var orphans: Int64 = 0
    var miscounted: Int64 = 0
    var commands: Int64 = 0
    var hasStoreRow = true

    var words: [String] {
      let unreadable = policies.values.reduce(0) { $0 + $1.count }
      return [
        names.isEmpty ? nil : CountedNoun.text(names.count, "name") + " that cannot be used",
        unreadable == 0
          ? nil
          : CountedNoun.text(unreadable, "policy", plural: "policies") + " that cannot be read",
        numbers == 0
          ? nil : CountedNoun.text(numbers, "breaker") + " with numbers out of range",
        orphans == 0 ? nil : CountedNoun.text(orphans, "row") + " of deleted breakers",
        miscounted == 0
          ? nil : CountedNoun.text(miscounted, "breaker") + " with a wrong count of probes",
        commands == 0
          ? nil : CountedNoun.text(commands, "command") + " of the fleet that cannot be used",
        hasStoreRow ? nil : "no row that identifies the store",
      ].compactMap { $0 }
    }
  }

  func damage() throws(StoreError) -> Damage {
    var damage = Damage()
    damage.hasStoreRow = try reader.integer("SELECT count(*) FROM store") == 1
    damage.numbers = try reader.integer(
      "SELECT count(*) FROM breaker WHERE \(Self.areOutOfRange)")
    for (table, condition) in Self.orphans {
      damage.orphans += try reader.integer("SELECT count(*) FROM \(table) WHERE \(condition)")
    }
    for (table, condition) in Self.commands {
      damage.commands += try reader.integer("SELECT count(*) FROM \(table) WHERE \(condition)")
    }
    damage.miscounted = try reader.integer(
      "SELECT count(*) FROM breaker WHERE leases <> \(Self.leaseCount)")
    // Many breakers have the same policy text.
    var readable: [String: Bool] = [:]
    let query = try reader.prepare("SELECT id, name, code_policy, operator_policy FROM breaker")
    defer { query.reset() }
    while try query.next() {
      let id = query.integer(0)
      if !Self.isName(query.blob(1) ?? []) { damage.names.append(id) }
      for (column, at) in [("code_policy", Int32(2)), ("operator_policy", 3)] {
        guard let words = query.text(at) else { continue }
        let isReadable = readable[words] ?? Self.isReadable(words)
        readable[words] = isReadable
        if !isReadable { damage.policies[column, default: []].append(id) }
      }
    }
    return damage
  }

  func finding() throws(StoreError) -> StoreFinding {
    let words = try damage().words
    guard !words.isEmpty else {
      return StoreFinding(.rows, .ok, "every row is as the library writes it")
    }
    return StoreFinding(
      .rows, .warning, words.joined(separator: "; "),
      means: "the library treats each of them as harmless",
      repair: "correct them, and rename what has no usable name to 'damaged-ID'", [.repairRows])
  }

  private static func isName(_ bytes: [UInt8]) -> Bool {
    guard let name = String(validating: bytes, as: UTF8.self) else { return false }
    return OutsideText.complaint(aboutName: name) == nil
  }

  /// Whether the text consists of keys of a policy, each with a value of its kind.
  ///
  /// They need not fit together by themselves, because an operator's are applied over the code's.
  static func isReadable(_ words: String) -> Bool {
    do throws(PolicyError) {
      var policy = BreakerPolicy()
      for (key, text) in try PolicyWords(text: words).values { try policy.set(key, to: text) }
      return true
    } catch {
      return false
    }
  }
}

internal import BreakerCore

/// A command in columns that two tables have in common.
enum FleetOrderColumns {
  private static let columns = [
    "breaker", "stamp", "host", "action", "mode", "length_ns", "policy_set", "policy_unset",
    "reason", "author", "boot", "given_at_ns", "given_at_ms",
  ]

  static let list = columns.joined(separator: ", ")

  /// How many columns there are.
  static let count = Int32(columns.count)

  /// The parameters that the columns are bound to, as in `?3, ?4`.
  static func parameters(from first: Int) -> String {
    columns.indices.map { "?\($0 + first)" }.joined(separator: ", ")
  }

  private enum Action: String {
    case trip, reset, force, policy
  }

  /// Reads the command that begins in a column; nil if this version cannot read it.
  static func read(
    _ row: borrowing Statement, from column: Int32, in header: StoreHeader, at now: Moment
  ) -> FleetOrder? {
    let length = row.integerOrNil(column + 5).map { Duration.nanoseconds($0) }
    let action: FleetCommand.Action
    switch Action(rawValue: row.text(column + 3) ?? "") {
    case .trip: action = .trip(for: length)
    case .reset: action = .reset
    case .force:
      guard let mode = BreakerMode(rawValue: Int(row.integer(column + 4))) else { return nil }
      action = .force(mode, for: length)
    case .policy:
      guard let values = values(row.text(column + 6)), let keys = keys(row.text(column + 7)) else {
        return nil
      }
      action = .policy(set: values, unset: keys)
    case nil: return nil
    }
    let command = FleetCommand(
      name: row.text(column) ?? "", action: action, reason: row.text(column + 8),
      author: row.text(column + 9) ?? "", host: row.text(column + 2) ?? "",
      stamp: row.integer(column + 1), age: .zero)
    let given = Moment(
      boot: Instant(nanoseconds: row.integer(column + 11)),
      wallMilliseconds: row.integer(column + 12))
    let order = FleetOrder(command, givenAt: given)
    return row.integer(column + 10) == header.boot.number ? order : order.carriedOver(to: now)
  }

  /// Binds a command to parameters from one on.
  static func bind(
    _ order: FleetOrder, from first: Int32, to statement: Statement, in header: StoreHeader
  ) {
    statement.bind(first, order.name)
    statement.bind(first + 1, order.stamp)
    statement.bind(first + 2, order.host)
    switch order.action {
    case .trip(let time):
      statement.bind(first + 3, Action.trip.rawValue)
      statement.bind(first + 5, time?.inNanoseconds)
    case .reset:
      statement.bind(first + 3, Action.reset.rawValue)
    case .force(let mode, let time):
      statement.bind(first + 3, Action.force.rawValue)
      statement.bind(first + 4, Int64(mode.rawValue))
      statement.bind(first + 5, time?.inNanoseconds)
    case .policy(let values, let keys):
      statement.bind(first + 3, Action.policy.rawValue)
      statement.bind(first + 6, PolicyWords(values).description)
      statement.bind(
        first + 7,
        PolicyKey.allCases.filter(keys.contains).map(\.rawValue).joined(separator: " "))
    }
    statement.bind(first + 8, order.reason)
    statement.bind(first + 9, order.author)
    statement.bind(first + 10, header.boot.number)
    statement.bind(first + 11, order.givenAt.boot.nanoseconds)
    statement.bind(first + 12, order.givenAt.wallMilliseconds)
  }

  private static func values(_ text: String?) -> [PolicyKey: String]? {
    do throws(PolicyError) {
      return try PolicyWords(text: text ?? "").values
    } catch {
      return nil
    }
  }

  private static func keys(_ text: String?) -> Set<PolicyKey>? {
    let words = (text ?? "").split(separator: " ")
    let keys = words.compactMap { PolicyKey(rawValue: String($0)) }
    return keys.count == words.count ? Set(keys) : nil
  }
}

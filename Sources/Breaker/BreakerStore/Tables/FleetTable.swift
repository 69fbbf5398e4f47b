@_spi(Relay) internal import BreakerCore

/// Reads a store's knowledge of its fleet.
extension ReadTransaction {
  /// The fleet of the store; nil if no relay has ever worked on it.
  ///
  /// Counting the commands that wait takes longer the more there are.
  func fleet(counting: Bool = true) throws(StoreError) -> StoredFleet? {
    let query = try connection.statement(.fleet)
    query.bind(1, counting ? 1 : 0)
    return try query.first { row in
      var fleet = StoredFleet(fleet: row.text(0) ?? "", host: row.text(1) ?? "")
      fleet.stamp = row.integer(2)
      if let epoch = row.text(3), let number = row.integerOrNil(4), let entry = row.text(5) {
        fleet.position = FleetPosition(epoch: epoch, number: number, entry: entry)
      }
      fleet.isConnected = row.integer(6) != 0
      fleet.changedAtMilliseconds = row.integerOrNil(7)
      fleet.problem = row.text(8)
      fleet.waiting = Int(row.integer(9))
      fleet.refused = Int(row.integer(10))
      fleet.refusal = row.text(11)
      fleet.withdrawals = row.integer(12)
      return fleet
    }
  }

  /// The latest command about each aspect of a breaker, or of every breaker.
  func registers(of name: String?) throws(StoreError) -> [FleetRegister] {
    let query = try connection.statement(name == nil ? .registers : .registersOfBreaker)
    if let name { query.bind(1, name) }
    return try query.rows { row in
      FleetOrderColumns.read(row, from: 1, in: self).map {
        FleetRegister($0, isInForce: row.integer(0) != 0)
      }
    }.compactMap { $0 }
  }

  /// The oldest commands that the relay has yet to publish, to one breaker or to all.
  func pendingOrders(of name: String?, limit: Int) throws(StoreError) -> [PendingOrder] {
    let query = try connection.statement(name == nil ? .orders : .ordersOfBreaker)
    query.bind(1, Int64(limit))
    if let name { query.bind(2, name) }
    return try query.rows { row in
      FleetOrderColumns.read(row, from: 1, in: self).map {
        PendingOrder(
          id: row.integer(0), order: $0, refusal: row.text(FleetOrderColumns.count + 1))
      }
    }.compactMap { $0 }
  }
}

extension ReadTransaction {
  /// Whether there are commands that the relay has yet to publish.
  func hasPendingOrders() throws(StoreError) -> Bool {
    try connection.statement(.hasOrders).first { $0.integer(0) } == 1
  }

  /// How many commands of the fleet are remembered; counting them takes longer the more there are.
  func commandCount() throws(StoreError) -> Int {
    Int(try connection.integer("SELECT count(*) FROM fleet_command"))
  }
}

extension WriteTransaction {
  /// Writes what the store knows of its fleet, except `waiting`, which is counted.
  func save(_ fleet: StoredFleet) throws(StoreError) {
    let save = try connection.statement(.saveFleet)
    save.bind(1, fleet.fleet)
    save.bind(2, fleet.host)
    save.bind(3, fleet.stamp)
    save.bind(4, fleet.position?.epoch)
    save.bind(5, fleet.position?.number)
    save.bind(6, fleet.position?.entry)
    save.bind(7, fleet.isConnected ? 1 : 0)
    save.bind(8, fleet.changedAtMilliseconds)
    save.bind(9, fleet.problem)
    save.bind(10, fleet.withdrawals)
    try save.run()
  }

  /// Deletes everything that is known of the fleet.
  func forgetFleet() throws(StoreError) {
    try connection.execute(
      "DELETE FROM fleet; DELETE FROM fleet_command; DELETE FROM fleet_outbox",
      to: "leave its fleet")
  }

  /// Keeps a register in place of the earlier one about the same aspect.
  func keep(_ register: FleetRegister) throws(StoreError) {
    guard let aspect = register.aspect else { return }
    let save = try connection.statement(.saveRegister)
    save.bind(1, aspect.text)
    save.bind(2, register.isInForce ? 1 : 0)
    FleetOrderColumns.bind(register.order, from: 3, to: save, boot: boot)
    try save.run()
  }

  /// Adds a command to those that the relay has yet to publish.
  func append(_ order: FleetOrder) throws(StoreError) {
    let insert = try connection.statement(.insertOrder)
    FleetOrderColumns.bind(order, from: 1, to: insert, boot: boot)
    try insert.run()
  }

  /// Notes why a command cannot be published for now; nil if that is over.
  func refuse(_ id: Int64, because why: String?) throws(StoreError) {
    let update = try connection.statement(.refuseOrder)
    update.bind(1, id)
    update.bind(2, why)
    try update.run()
  }

  /// Forgets the latest command about an aspect of a breaker.
  func forget(_ register: FleetRegister) throws(StoreError) {
    guard let aspect = register.aspect else { return }
    let delete = try connection.statement(.deleteRegister)
    delete.bind(1, register.order.name)
    delete.bind(2, aspect.text)
    try delete.run()
  }

  /// Removes commands from those that the relay has yet to publish.
  func deletePending(_ ids: ClosedRange<Int64>) throws(StoreError) {
    let delete = try connection.statement(.deleteOrders)
    delete.bind(1, ids.lowerBound)
    delete.bind(2, ids.upperBound)
    try delete.run()
  }

  /// Forgets every command with a higher stamp, whether or not the relay has published it.
  func forgetOrders(stampedAbove stamp: Int64) throws(StoreError) {
    for query in [Query.deleteLaterRegisters, .deleteLaterOrders] {
      let delete = try connection.statement(query)
      delete.bind(1, stamp)
      try delete.run()
    }
  }
}

/// The columns of a command, which two tables have in common.
enum FleetOrderColumns {
  private static let columns = [
    "breaker", "stamp", "host", "action", "mode", "length_ns", "policy_set", "policy_unset",
    "reason", "author", "boot", "given_at_ns", "given_at_ms", "seals",
    "verified_user", "is_proven",
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
    case endHold = "end-hold"
  }

  /// Reads the command that begins in a column; nil if this version cannot read it.
  static func read(
    _ row: borrowing Statement, from column: Int32, in transaction: ReadTransaction
  ) -> FleetOrder? {
    let length = row.integerOrNil(column + 5).map { Duration.nanoseconds($0) }
    let action: FleetCommand.Action
    switch Action(rawValue: row.text(column + 3) ?? "") {
    case .trip: action = .trip(for: length)
    case .reset: action = .reset
    case .endHold: action = .endHold
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
      stamp: row.integer(column + 1), age: .zero, seals: seals(row.text(column + 13)),
      verifiedUser: row.text(column + 14), isProven: row.integer(column + 15) != 0)
    let given = Moment(
      boot: Instant(nanoseconds: row.integer(column + 11)),
      wallMilliseconds: row.integer(column + 12))
    let order = FleetOrder(command, givenAt: given)
    return row.integer(column + 10) == transaction.boot
      ? order : order.carriedOver(to: transaction.now)
  }

  /// Binds a command to consecutive parameters.
  static func bind(
    _ order: FleetOrder, from first: Int32, to statement: Statement, boot: Int64
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
    case .endHold:
      statement.bind(first + 3, Action.endHold.rawValue)
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
    statement.bind(first + 10, boot)
    statement.bind(first + 11, order.givenAt.boot.nanoseconds)
    statement.bind(first + 12, order.givenAt.wallMilliseconds)
    let seals = order.seals.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    statement.bind(first + 13, seals.isEmpty ? nil : seals.joined(separator: " "))
    statement.bind(first + 14, order.giver.verifiedUser)
    statement.bind(first + 15, order.giver.isProven ? 1 : 0)
  }

  private static func seals(_ text: String?) -> [String: String] {
    let words = (text ?? "").split(separator: " ").map { word in
      word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    }
    return Dictionary(words.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { first, _ in first }
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

internal import BreakerCore

/// Breakers, their leases and declarations.
enum BreakerTable {
  /// How many declarations are kept of one breaker.
  static let declarations: Int64 = 8

  /// The era that a revision belongs to, by which the index finds it.
  fileprivate static func era(of revision: Int64) -> Int64 { revision / 64 }
}

extension ReadTransaction {
  /// The breaker of a name, without what has been counted since it was written.
  func storedBreaker(_ name: String) throws(StoreError) -> StoredBreaker? {
    let query = try connection.statement(.breakerByName)
    query.bind(1, name)
    return try query.first { row throws(StoreError) in try breaker(row) }
  }

  /// A breaker that was listed before; nil if it is gone.
  func find(_ listed: ListedBreaker) throws(StoreError) -> StoredBreaker? {
    let query = try connection.statement(.breakerByID)
    query.bind(1, listed.id)
    let found = try query.first { row throws(StoreError) in try breaker(row) }
    // If the file was replaced since, the same id belongs to another breaker.
    guard let found, NameBytes(found.name) == NameBytes(listed.name) else { return nil }
    return upToDate(found)
  }

  /// Reads the whole breaker of a row; one written in an earlier boot is carried over to this one.
  func breaker(
    _ row: Statement, from column: Int32 = 0
  ) throws(StoreError) -> StoredBreaker {
    let header = header
    let thisBoot = header.boot.number
    let read = BreakerRow(row, from: column)
    var breaker = read.breaker
    breaker.lineage = header.lineage
    if read.bootOfState != thisBoot {
      // If no boot was noted for the beginning of the state, the state may have begun in this boot.
      breaker.record.moveBeginning(
        to: breaker.record.stateBegan(
          createdAtMilliseconds: breaker.createdAtMilliseconds,
          bootedAtMilliseconds: header.boot.bootedAtMilliseconds,
          beforeBoot: read.bootOfState != 0 || read.boot != thisBoot))
    }
    if read.boot != thisBoot {
      breaker.record = breaker.record.carriedOver(to: clock.moment)
    } else {
      if breaker.leasesInFile > 0 {
        breaker.record.leases = try leases(of: breaker.id)
      }
      breaker.hasFalseTimesInFile = breaker.record.correctFalseTimes(at: clock.instant)
    }
    return breaker
  }

  private func leases(of breaker: Int64) throws(StoreError) -> [ProbeLease] {
    let query = try connection.statement(.leases)
    query.bind(1, breaker)
    return try query.rows { row in
      ProbeLease(
        id: row.integer(0), generation: row.integer(7), owner: row.process(1),
        began: row.integerOrNil(8).map { Instant(nanoseconds: $0) },
        deadline: Instant(nanoseconds: row.integer(6)))
    }
  }

  /// The changes after a revision; without a revision, only the newest revision.
  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    var newest: Int64?
    let header = header
    let query = try connection.statement(.changes)
    query.bind(1, revision.map(BreakerTable.era))
    let found = try query.rows { row throws(StoreError) -> StoredBreaker? in
      changes.continuity = row.integer(0)
      changes.deletedRevision = row.integer(1)
      changes.isOfOtherHeader =
        row.integer(2) != header.lineage || row.integer(3) != header.notedBoot
      // There is no row if no breaker belongs to such a late era.
      guard let its = row.integerOrNil(4 + BreakerRow.revision) else { return nil }
      newest = max(newest ?? 0, its)
      guard its > revision ?? .max else { return nil }
      return try breaker(row, from: 4)
    }
    changes.breakers = found.compactMap { $0 }
    if let newest {
      changes.revision = max(newest, changes.deletedRevision)
    } else {
      changes.revision = try nextRevision() - 1
    }
    return changes
  }

  /// The revision of the next transaction.
  func nextRevision() throws(StoreError) -> Int64 {
    try connection.statement(.nextRevision).first { $0.integer(0) } ?? 1
  }

  /// The breakers with names that begin with a text, by name.
  ///
  /// With a state, it returns candidates; read each one for its current state.
  func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    let query = try connection.statement(state == nil ? .namesByPrefix : .namesByState)
    query.bind(1, prefix)
    if let state {
      let origins = BreakerState.allCases.filter { $0.mayBecome(state) }
      query.bind(2, origins.first.map { Int64($0.rawValue) })
      query.bind(3, origins.last.map { Int64($0.rawValue) })
    }
    return try query.rows { ListedBreaker(id: $0.integer(0), name: $0.text(1) ?? "") }
  }

  /// The policies that code has declared for a breaker.
  func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    let query = try connection.statement(.declarations)
    query.bind(1, name)
    return try query.rows { row in
      StoredDeclaration(
        words: row.text(0) ?? "", atMilliseconds: row.integer(1),
        pid: Int32(truncatingIfNeeded: row.integer(2)), program: row.text(3) ?? "")
    }
  }
}

extension WriteTransaction {
  /// Why there is no room for one more breaker; nil if there is.
  ///
  /// Row numbers are never reused, so rows are counted only once the numbers reach the limit.
  func lackOfRoom() throws(StoreError) -> StoreError? {
    if let lack = user.lackOfRoom { return lack }
    let query = try connection.statement(.breakersAtLimit)
    query.bind(1, room)
    let count = try query.first { $0.integer(0) } ?? 0
    return count < room ? nil : StoreRoom.error(path: path, limit: room)
  }

  /// Inserts a new breaker, and gives it its id.
  func insert(_ breaker: inout StoredBreaker) throws(StoreError) {
    let query = try connection.statement(.insertBreaker)
    query.bind(1, breaker.name)
    query.bind(2, revision)
    query.bind(3, boot)
    query.bind(4, breaker.createdAtMilliseconds)
    query.bind(5, BreakerTable.era(of: revision))
    query.bind(6, breaker.record.tally.since?.nanoseconds)
    breaker.id = try query.rows { $0.integer(0) }.first ?? 0
    breaker.revision = revision
    breaker.era = BreakerTable.era(of: revision)
  }

  /// Writes a breaker that has changed; its revision is set already.
  func save(_ breaker: inout StoredBreaker, before: StoredBreaker) throws(StoreError) {
    var row = BreakerRow(breaker, boot: boot)
    let update = try connection.statement(.updateBreaker)
    row.bind(to: update)
    try update.run()
    if breaker.record.tally != before.record.tally || before.hasFalseTimesInFile {
      let update = try connection.statement(.updateTally)
      row.bindTally(to: update)
      try update.run()
    }
    let era = BreakerTable.era(of: breaker.revision)
    if era != breaker.era {
      let move = try connection.statement(.moveBreaker)
      move.bind(1, breaker.id)
      move.bind(2, era)
      try move.run()
      breaker.era = era
    }
    // Leases of an earlier boot are ignored when read, and removed by the next write.
    if before.hasVoidLeases || breaker.record.leases != before.record.leases {
      try replaceLeases(of: breaker)
    }
    breaker.leasesInFile = breaker.record.leases.count
    breaker.hasFalseTimesInFile = false
  }

  private func replaceLeases(of breaker: StoredBreaker) throws(StoreError) {
    let delete = try connection.statement(.deleteLeases)
    delete.bind(1, breaker.id)
    try delete.run()
    for lease in breaker.record.leases {
      let insert = try connection.statement(.insertLease)
      insert.bind(1, breaker.id)
      insert.bind(2, lease.id)
      insert.bind(3, lease.owner)
      insert.bind(8, lease.deadline.nanoseconds)
      insert.bind(9, lease.generation)
      insert.bind(10, lease.began?.nanoseconds)
      try insert.run()
    }
  }

  /// Adds a breaker as another storage knew it.
  func seed(_ known: StoredBreaker) throws(StoreError) {
    var breaker = known
    var made = StoredBreaker(
      id: 0, name: known.name, createdAtMilliseconds: known.createdAtMilliseconds)
    made.record.tally.since = known.record.tally.since
    try insert(&made)
    breaker.id = made.id
    breaker.revision = made.revision
    breaker.era = made.era
    try save(&breaker, before: made)
  }

  /// Deletes a breaker; a trigger of the table deletes its dependent rows and notes the deletion.
  func delete(_ breaker: StoredBreaker) throws(StoreError) { try delete(row: breaker.id) }

  func delete(row: Int64) throws(StoreError) {
    let delete = try connection.statement(.deleteBreaker)
    delete.bind(1, row)
    try delete.run()
  }

  /// Marks a breaker as changed, although nothing in it has changed; without a name, any breaker.
  ///
  /// Other processes see that there was a commit. If it raises a revision, they read that breaker
  /// again; otherwise they would read all breakers again.
  func raiseRevision(of name: String?) throws(StoreError) {
    // Any breaker will do, such as one that was changed lately.
    let any = name == nil ? try connection.statement(.anyBreaker).first { $0.text(0) } ?? nil : nil
    guard let name = name ?? any else { return }
    let raise = try connection.statement(.raiseRevision)
    raise.bind(1, name)
    raise.bind(2, revision)
    raise.bind(3, BreakerTable.era(of: revision))
    try raise.run()
  }

  /// Keeps the latest policies that code has declared for a breaker.
  func declare(_ words: String, for breaker: StoredBreaker) throws(StoreError) {
    let declare = try connection.statement(.declare)
    declare.bind(1, breaker.id)
    declare.bind(2, words)
    declare.bind(3, now.wallMilliseconds)
    declare.bind(4, Int64(user.author.pid))
    declare.bind(5, user.author.program)
    try declare.run()
    let trim = try connection.statement(.trimDeclarations)
    trim.bind(1, breaker.id)
    trim.bind(2, BreakerTable.declarations)
    try trim.run()
  }
}

/// A process in five columns: its number, its start, its PID namespace, and its lifeline's byte and
/// file; NULL if there is none.
extension Statement {
  /// Reads the process that begins in a column.
  func process(_ column: Int32) -> ProcessIdentity? {
    integerOrNil(column).map {
      ProcessIdentity(
        pid: Int32(truncatingIfNeeded: $0), startTicks: UInt64(bitPattern: integer(column + 1)),
        pidNamespace: UInt64(bitPattern: integer(column + 2))
      ).holding(lifeline(column + 3))
    }
  }

  private func lifeline(_ column: Int32) -> Lifeline? {
    integerOrNil(column).map {
      Lifeline(byte: $0, file: UInt64(bitPattern: integer(column + 1)))
    }
  }

  /// Binds a process to five parameters.
  func bind(_ first: Int32, _ process: ProcessIdentity?) {
    bind(first, process.map { Int64($0.pid) })
    bind(first + 1, process.map { Int64(bitPattern: $0.startTicks) })
    bind(first + 2, process.map { Int64(bitPattern: $0.pidNamespace) })
    bind(first + 3, process?.lifeline?.byte)
    bind(first + 4, (process?.lifeline?.file).map { Int64(bitPattern: $0) })
  }
}

extension SQLiteStorage {
  /// The limit if no other is set.
  package static var usualBreakers: Int64 { StoreRoom.usualBreakers }
}

/// How many breakers a store has room for.
enum StoreRoom {
  /// The limit if no other is set: on the order of a hundred megabytes, which take a few seconds to
  /// list.
  static let usualBreakers: Int64 = 200_000

  static func error(path: String, limit: Int64) -> StoreError {
    StoreError(
      .tooManyBreakers,
      "the store \(StoreError.visible(path)) is full: it has"
        + " \(CountedNoun.text(limit, "breaker")), which is the limit: delete those that nobody uses,"
        + " and find out who creates so many")
  }
}

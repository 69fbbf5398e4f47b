internal import BreakerCore
internal import Glibc

/// Repairing what an examination has found.
extension StoreDoctor {
  /// Repairs what can be repaired, and examines the store again; no file is ever deleted.
  ///
  /// - Throws: `StoreError` if there is no store, or nothing that could be examined.
  package func repair() throws(StoreError) -> [StoreFinding] {
    try forks.shut { () throws(StoreError) in try repairNow() }
  }

  /// Repairs the store; the caller holds the gate.
  private func repairNow() throws(StoreError) -> [StoreFinding] {
    try completeReplacement()
    var done: [String: String] = [:]
    var tried: Set<StoreRemedy> = []
    // The next round handles what one remedy leaves or uncovers.
    while true {
      var findings = try look().filter { !tried.isSuperset(of: $0.remedies) }
      if findings.isEmpty { break }
      // A new store replaces everything else, so no other remedy is needed then.
      let beyondRepair = findings.filter { $0.remedies.contains(.startOver) }
      if !beyondRepair.isEmpty { findings = beyondRepair }
      for finding in findings {
        tried.formUnion(finding.remedies)
        let words = carryOut(finding)
        done[finding.check] = done[finding.check].map { "\($0); \(words)" } ?? words
      }
    }
    return try look().map { finding in
      var finding = finding
      if let words = done[finding.check] { finding.repair = words }
      return finding
    }
  }

  /// Completes an earlier repair that was interrupted, as every program does that opens the store.
  func completeReplacement() throws(StoreError) {
    let (named, file) = StorePath.split(path)
    guard let directory = StoreFile.realPath(named) else { return }
    let store = directory == "/" ? "/\(file)" : "\(directory)/\(file)"
    guard try !StoreFile.exists(store), Replacement.isPending(store) else { return }
    try StoreLock.held(store, atMost: lockTimeout) { _ throws(StoreError) in
      _ = try Replacement.complete(store, at: clock.wallMilliseconds)
    }
  }

  /// Carries out the remedies of a finding, and describes the result.
  private func carryOut(_ finding: StoreFinding) -> String {
    var details: [String] = []
    for remedy in finding.remedies {
      do throws(StoreError) {
        if let detail = try carryOut(remedy) { details.append(detail) }
      } catch {
        return "not done: \(error)"
      }
    }
    let what = finding.repair ?? finding.check
    return "done: " + what + (details.isEmpty ? "" : " (\(details.joined(separator: "; ")))")
  }

  private func carryOut(_ remedy: StoreRemedy) throws(StoreError) -> String? {
    switch remedy {
    case .startOver: return try startOver()
    case .setAside(let suffix, let identity):
      let place = try StoreSite(path)
      // A file that is wrong in the place of the lock file locks nothing.
      guard suffix != StoreLock.suffix else {
        return try setAside(place.beside(suffix), identity)
      }
      return try StoreLock.held(place.path, atMost: lockTimeout) { _ throws(StoreError) in
        try setAside(place.beside(suffix), identity)
      }
    case .adjust(let suffix, let identity, let rights):
      try adjust(suffix, identity, to: rights)
    case .repairRows: try repairRows()
    case .freeLeases: try withStorage { storage throws(StoreError) in try storage.freeLeases() }
    case .correctTimes:
      try withStorage { storage throws(StoreError) in try storage.correctTimes() }
    case .foldLog: try withStorage { storage throws(StoreError) in try storage.foldLog() }
    case .open: try withStorage(mayCreate: true) { _ in }
    }
    return nil
  }

  private func setAside(_ path: String, _ identity: FileIdentity) throws(StoreError) -> String {
    // Another repair, or a program, may have put a new file in its place.
    guard FileStatus(of: path)?.identity == identity else {
      return "somebody else has already done it"
    }
    let name = SetAside.name(for: path, at: clock.wallMilliseconds)
    try SetAside.move(path, to: name)
    return StorePath.split(name).file
  }

  /// Opens the store as usual for as long as a body takes.
  func withStorage<Result>(
    mayCreate: Bool = false, _ body: (SQLiteStorage) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let storage = SQLiteStorage(
      path: path, lockTimeout: lockTimeout, clock: clock, program: program)
    try storage.open(mayCreate: mayCreate)
    defer { storage.close() }
    return try body(storage)
  }

  private func adjust(
    _ suffix: String?, _ identity: FileIdentity, to rights: FileRights
  ) throws(StoreError) {
    let place = try StoreSite(path)
    guard let suffix else {
      return try OwnedFile.give(rights, toDirectoryOf: place, identity)
    }
    try OwnedFile.give(rights, to: suffix, of: place, identity, staysOpen: !isAlone)
  }

  /// Repairs rows in one transaction, which running processes notice like any other program's.
  private func repairRows() throws(StoreError) {
    let place = try StoreSite(path)
    let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
    try OpenStore.setUp(connection)
    try connection.write { () throws(StoreError) in
      let damage = try RowExamination(reader: connection).damage()
      try connection.execute(
        "UPDATE breaker SET \(RowExamination.intoRange) WHERE \(RowExamination.areOutOfRange)")
      // The table itself does not allow a generation of 0.
      for id in damage.names {
        // There may already be a breaker of that name.
        try connection.execute(
          """
          UPDATE breaker SET name = CASE
            WHEN EXISTS (SELECT 1 FROM breaker WHERE name = 'damaged-\(id)')
            THEN 'damaged-\(id)-' || lower(hex(randomblob(8))) ELSE 'damaged-\(id)' END
          WHERE id = \(id)
          """)
      }
      for (column, ids) in damage.policies {
        for id in ids {
          try connection.execute("UPDATE breaker SET \(column) = NULL WHERE id = \(id)")
        }
      }
      for (table, condition) in RowExamination.orphans {
        try connection.execute("DELETE FROM \(table) WHERE \(condition)")
      }
      try connection.execute(
        "UPDATE breaker SET leases = \(RowExamination.leaseCount)"
          + " WHERE leases <> \(RowExamination.leaseCount)")
      if damage.commands > 0 { try repairFleet(on: connection) }
      if !damage.hasStoreRow {
        let identity = Int64.random(in: .min ... .max)
        try connection.execute(
          "INSERT INTO store (id, identity, created_at_ms) VALUES (1, \(identity),"
            + " \(clock.wallMilliseconds))")
      }
    }
  }
}

extension StoreDoctor {
  /// Deletes commands that no host can use; the fleet goes on with the highest stamp that is left.
  private func repairFleet(on connection: Connection) throws(StoreError) {
    for table in ["fleet_command", "fleet_outbox"] {
      guard let condition = RowExamination.commands[table] else { continue }
      try connection.execute("DELETE FROM \(table) WHERE \(condition)")
    }
    guard let condition = RowExamination.commands["fleet"] else { return }
    try connection.execute(
      """
      UPDATE fleet SET stamp = (
        SELECT coalesce(max(stamp), 0) FROM (
          SELECT stamp FROM fleet_command UNION ALL SELECT stamp FROM fleet_outbox))
      WHERE \(condition)
      """)
  }
}

/// The repairs that go through the ordinary storage.
extension SQLiteStorage {
  /// Records how probes that are over have ended, as the next call of their breakers would.
  func freeLeases() throws(StoreError) {
    let names = try readFile(isLong: false) { connection throws(StoreError) in
      try LeaseRemains.find(on: connection, clock: clock).map(\.name)
    }
    // Every transaction settles its breaker first.
    for name in Set(names) { _ = try transact(name, orCreate: false, wait: .usual) { _ in } }
  }

  /// Moves the log into the file, and restarts it unless another process is still reading it.
  func foldLog() throws(StoreError) {
    let isDone = try openToWrite(until: deadline(of: .usual)) { store throws(StoreError) in
      try holding(reading) { store.checkpoint(isUrgent: true) }
    }
    guard isDone else {
      throw StoreError(
        .busy, "the log of \(StoreError.visible(path)) is in use: try again when it is not")
    }
    // The next commit truncates the log.
    try proveWritable()
  }
}

/// Setting a damaged store aside, and creating a new one in its place.
extension StoreDoctor {
  /// Replaces the damaged store; if any step fails, the damaged store stays where it was.
  func startOver() throws(StoreError) -> String {
    let place = try StoreSite(path)
    // If the file is sound enough to be locked, no other process is in a transaction now.
    let holder = try SetAside.lock(place, lockTimeout: lockTimeout)
    defer { withExtendedLifetime(holder) {} }
    let somebodyElse = "somebody else has already done it"
    // Another repair may have created a new store meanwhile.
    guard StoreFile.identity(of: place.path) == place.file.identity else { return somebodyElse }
    // An examination that misses a log just being started may have seen half a change.
    if let holder, (try? holder.text("PRAGMA integrity_check(1)")) == "ok" {
      return "there is no damage while nobody writes, so it was left as it is"
    }
    let salvage = Salvage(of: place, clock: clock, lockTimeout: lockTimeout)
    let fresh = place.beside(".new-\(UInt32.random(in: .min ... .max))")
    defer { ([""] + StoreSite.all).forEach { unsafe unlink(fresh + $0) } }
    try make(fresh, like: place.file.rights) {
    } filled: { storage throws(StoreError) in
      try salvage.bring(to: storage)
    }
    let aside = try StoreLock.held(place.path, atMost: lockTimeout) {
      _ throws(StoreError) -> String? in
      guard StoreFile.identity(of: place.path) == place.file.identity else { return nil }
      let name = SetAside.name(for: place.path, at: clock.wallMilliseconds)
      try Replacement.run(place, by: fresh, setAsideAs: name)
      return StorePath.split(name).file
    }
    guard let aside else { return somebodyElse }
    // Creates the files beside the store.
    try withStorage { _ in }
    let taken = CountedNoun.text(salvage.breakers.count, "breaker")
    return "it is now \(aside), and the new one took over \(taken)"
  }

  /// Creates a complete store in a single file, under a name that no program looks for.
  ///
  /// The first body fills the empty file before it is opened, and the other one the open store.
  func make(
    _ path: String, like rights: FileRights, _ before: () throws(StoreError) -> Void,
    filled fill: (SQLiteStorage) throws(StoreError) -> Void
  ) throws(StoreError) {
    close(try NewFile.create(path, rights, mustHave: true))
    try before()
    var access = StoreAccess()
    access.isTemporary = true
    let storage = SQLiteStorage(
      path: path, access: access, lockTimeout: lockTimeout, clock: clock, program: program)
    try storage.open(mayCreate: true)
    defer { storage.close() }
    try fill(storage)
    storage.close()
    // Move the whole log into the file, or the log would have to move along with it.
    let connection = try Connection(path: path, lockTimeout: lockTimeout)
    let isHeldUp = try connection.integer("PRAGMA wal_checkpoint(TRUNCATE)")
    guard isHeldUp == 0 else {
      throw StoreError(.busy, "the new store \(StoreError.visible(path)) is in use: try again")
    }
  }
}

internal import BreakerCore
internal import Glibc

/// Mending what an examination has found.
extension StoreDoctor {
  /// Mends what can be mended, and looks again; nothing is ever deleted.
  ///
  /// - Throws: `StoreError` if there is no store, or nothing that could be looked at.
  package func repair() throws(StoreError) -> [StoreFinding] {
    try forks.shut { () throws(StoreError) in try mend() }
  }

  /// Mends; behind the gate.
  private func mend() throws(StoreError) -> [StoreFinding] {
    var done: [String: String] = [:]
    var tried: Set<StoreRemedy> = []
    // What one remedy leaves, or uncovers, is for the next.
    while true {
      var findings = try look().filter { !tried.isSuperset(of: $0.remedies) }
      if findings.isEmpty { break }
      // Where the store is begun anew, all else is begun anew with it.
      let anew = findings.filter { $0.remedies.contains(.beginAnew) }
      if !anew.isEmpty { findings = anew }
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

  /// Carries out what a finding asks for, and says what has become of it.
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
    case .beginAnew: return try beginAnew()
    case .setAside(let suffix, let identity):
      let place = try StorePlace(path)
      // What lies in the place of the lock file locks nothing.
      guard suffix != StoreLock.suffix else {
        return try setAside(place.beside(suffix), identity)
      }
      return try StoreLock.held(place.path, atMost: lockTimeout) { _ throws(StoreError) in
        try setAside(place.beside(suffix), identity)
      }
    case .adjust(let path, let rights): try adjust(path, to: rights)
    case .mendRows: try mendRows()
    case .freeLeases: try withStorage { storage throws(StoreError) in try storage.freeLeases() }
    case .foldLog: try withStorage { storage throws(StoreError) in try storage.foldLog() }
    case .open: try withStorage(mayCreate: true) { _ in }
    }
    return nil
  }

  private func setAside(_ path: String, _ identity: FileIdentity) throws(StoreError) -> String {
    // Another repair, or a program, may have put a new one in its place.
    guard FileStatus(of: path)?.identity == identity else { return "somebody else has done it" }
    let name = SetAside.name(for: path, at: clock.wallMilliseconds)
    try SetAside.move(path, to: name)
    return StorePath.split(name).file
  }

  /// Opens the store as every use does, for as long as a body takes.
  func withStorage<Result>(
    mayCreate: Bool = false, _ body: (SQLiteStorage) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let storage = SQLiteStorage(
      path: path, lockTimeout: lockTimeout, clock: clock, program: program)
    try storage.open(mayCreate: mayCreate)
    defer { storage.close() }
    return try body(storage)
  }

  /// Without opening the file: closing it again would drop locks of this process.
  private func adjust(_ path: String, to rights: FileRights) throws(StoreError) {
    guard let now = FileStatus(of: path), !now.isLink else { return }
    guard !now.isRegular || now.names == 1 else {
      throw StoreError(
        .other,
        "the file \(StoreError.visible(path)) has \(now.names) names: its rights would change"
          + " under each of them: remove the others")
    }
    let user = rights.user == now.rights.user ? uid_t.max : rights.user
    let group = rights.group == now.rights.group ? gid_t.max : rights.group
    if user != uid_t.max || group != gid_t.max {
      guard unsafe lchown(path, user, group) == 0 else {
        throw StoreError(errno: errno, doing: "change the owner of", path: path)
      }
    }
    guard unsafe fchmodat(AT_FDCWD, path, mode_t(rights.mode), AT_SYMLINK_NOFOLLOW) == 0 else {
      throw StoreError(errno: errno, doing: "change the mode of", path: path)
    }
  }

  /// In one transaction, which processes that run notice like that of any other program.
  private func mendRows() throws(StoreError) {
    let place = try StorePlace(path)
    let connection = try Connection(path: place.path, lockTimeout: lockTimeout)
    try OpenStore.setUp(connection)
    try connection.write { () throws(StoreError) in
      let damage = try RowExamination(reader: connection).damage()
      try connection.execute(
        "UPDATE breaker SET \(RowExamination.intoRange) WHERE \(RowExamination.areOutOfRange)")
      // The table itself lets no generation be 0.
      for id in damage.names {
        // Somebody may have a breaker of that name.
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
      if !damage.hasStoreRow {
        let identity = Int64.random(in: .min ... .max)
        try connection.execute(
          "INSERT INTO store (id, identity, created_at_ms) VALUES (1, \(identity),"
            + " \(clock.wallMilliseconds))")
      }
    }
  }
}

/// What a repair does with the storage of every use.
extension SQLiteStorage {
  /// Records how probes have ended that are over, as the next call of their breakers would.
  func freeLeases() throws(StoreError) {
    let names = try read { connection throws(StoreError) in
      try LeaseRemains.find(on: connection, clock: clock).map(\.name)
    }
    // Every transaction begins with that.
    for name in Set(names) { _ = try transact(name, orCreate: false, wait: .usual) { _ in } }
  }

  /// Moves the log into the file, and begins it anew unless somebody still reads it.
  func foldLog() throws(StoreError) {
    let isDone = try openToWrite(until: deadline(of: .usual)) { store throws(StoreError) in
      reading.withLock { store.checkpoint(isUrgent: true) }
    }
    guard isDone else {
      throw StoreError(
        .busy, "the log of \(StoreError.visible(path)) is in use: try again when it is not")
    }
    // The next commit cuts it.
    try proveWritable()
  }
}

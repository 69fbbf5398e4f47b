internal import CHost
internal import CSQLite
internal import Glibc

/// Examines a store, and repairs what is wrong with it.
package struct StoreDoctor {
  let path: String
  let clock: StoreClock
  let program: String
  let lockTimeout: Duration

  /// How many breakers the store may have.
  let room: Int64
  let forks: ForkGate

  /// Whether nothing else in this process uses the store.
  ///
  /// If so, the log's index can be opened read-only. A whole process shares what SQLite has open of
  /// the index, so a process that opened it later could not write.
  let isAlone: Bool

  package init(
    path: String, clock: StoreClock, program: String, lockTimeout: Duration, room: Int? = nil,
    forks: ForkGate = ForkGate(), isAlone: Bool = false
  ) {
    self.forks = forks
    self.isAlone = isAlone
    self.path = StorePath.absolute(path)
    self.clock = clock
    self.program = program
    self.lockTimeout = lockTimeout
    self.room = room.map { Int64($0) } ?? StoreRoom.usualBreakers
  }

  /// Examines everything and changes nothing.
  ///
  /// - Throws: `StoreError` if there is no store, or nothing that could be examined.
  package func examine() throws(StoreError) -> [StoreFinding] {
    try forks.shut { () throws(StoreError) in try look() }
  }

  /// Examines everything; the caller holds the gate.
  func look() throws(StoreError) -> [StoreFinding] {
    let place = try StoreSite(path)
    let others = LogExamination(place: place, users: StoreUsers(of: place))
    var header: StoreHeader?
    var findings = FileExamination.findings(place) + DiskExamination.findings(place)
    findings += lookInside(place, others.users, &header)
    findings += [
      others.log(),
      WritingExamination(
        place: place, users: others.users, lockTimeout: lockTimeout, isAlone: isAlone
      ).finding(),
      others.counters(header ?? .unknown(clock)),
      SlotExamination(place: place, header: header ?? .unknown(clock)).finding(),
      others.processes(), others.leftovers(),
    ]
    // The files of another program stay as that program wants them.
    if !StoreEvidence.isOurs(place) {
      for index in findings.indices where !findings[index].remedies.isEmpty {
        findings[index].remedies = []
        findings[index].repair = "none: it is not a breaker store"
      }
    }
    return findings
  }

  private func lookInside(
    _ place: StoreSite, _ users: StoreUsers, _ header: inout StoreHeader?
  ) -> [StoreFinding] {
    var findings: [StoreFinding] = []
    do throws(StoreError) {
      guard
        let reader = try Connection.reading(place, isAlone: isAlone, lockTimeout: lockTimeout)
      else {
        return [
          StoreFinding(
            .integrity, .note, "not checked",
            means: "reading a log without its index would create the index")
        ]
      }
      let tables = TableExamination(reader: reader)
      let (version, kind) = try tables.version()
      findings.append(version)
      guard kind != .unknown, kind != .none else { return findings }
      findings.append(try tables.journal())
      if kind == .current { findings.append(try tables.migrations()) }
      let integrity = tables.integrity(unless: { forks.isForkWaiting })
      findings.append(integrity)
      guard kind == .current, integrity.isWell else { return findings }
      findings.append(try RowExamination(reader: reader).finding())
      header = try StoreHeader.seen(on: reader, place.terms(clock))
      reader.header = header
      findings += try UseExamination(
        reader: reader, clock: clock, users: users, room: room
      ).findings()
      findings += try FleetExamination(reader: reader, clock: clock, path: path).findings()
    } catch {
      findings.append(TableExamination.unreadable(error, isOurs: StoreEvidence.isOurs(place)))
    }
    return findings
  }
}

extension Connection {
  /// Opens a store for examination only; nil if that would create a file beside it.
  ///
  /// Without a log there is only the file to read; with an index, SQLite need not create one.
  static func reading(
    _ place: StoreSite, isAlone: Bool, lockTimeout: Duration
  ) throws(StoreError) -> Connection? {
    let log = FileStatus(of: place.beside(StoreFile.logSuffix))
    let index = FileStatus(of: place.beside(StoreFile.indexSuffix))
    if index == nil, log?.size ?? 0 > 0 { return nil }
    // As root, SQLite would give another user's files to the store's owner.
    let isStrange = [log, index].contains { file in
      guard let file else { return false }
      return !file.isRegular || PlantedFile.isStrange(file, beside: place.file)
        || PlantedFile.isAnothers(file.rights.user, in: place.directory)
    }
    let isFileAlone =
      index == nil || log == nil || isStrange || LogOwner.isOfAnother(beside: place.path)
    let way = isFileAlone ? Connection.immutable : isAlone ? "readonly_shm=1" : "mode=ro"
    let connection = try Connection(
      reading: place.path, way: way, lockTimeout: lockTimeout)
    do throws(StoreError) {
      // One snapshot of the file for the whole examination. Each further one could need a mark in
      // the index, which programs that write keep resetting.
      try connection.execute("BEGIN", to: "be read")
      _ = try connection.integer("SELECT count(*) FROM sqlite_schema")
      return connection
    } catch {
      // No process has read since the log restarted, and a reader must leave a mark in the index.
      guard error.code & 0xFF == SQLITE_READONLY || error.code & 0xFF == SQLITE_CANTOPEN,
        index != nil
      else { throw error }
      return try Connection(reading: place.path, way: "mode=ro", lockTimeout: lockTimeout)
    }
  }
}

/// Whether a file is or once was a breaker store, however damaged it is now.
enum StoreEvidence {
  /// Where a database's header stores its application's number (sqlite.org/fileformat.html, 1.3).
  static let offsetOfApplication: Int64 = 68

  static func isOurs(_ place: StoreSite) -> Bool {
    let number = application(place)
    // A new store starts as an empty file, and is a single empty page for a while.
    let isBegun = place.file.size == 0 || number == 0 && place.file.size == 1_024
    return isBegun || number == Migrator.applicationID || hasOurCounters(place)
  }

  private static func application(_ place: StoreSite) -> Int64? {
    do throws(StoreError) {
      let connection = try Connection(
        reading: place.path, way: Connection.immutable, lockTimeout: .zero)
      let number = connection.header(at: offsetOfApplication, count: 4)
      return number?.reduce(0) { $0 << 8 | Int64($1) }
    } catch {
      return nil
    }
  }

  private static func hasOurCounters(_ place: StoreSite) -> Bool {
    guard let file = CounterFile.opened(place.beside(CounterFile.suffix), O_RDONLY) else {
      return false
    }
    defer { close(file.descriptor) }
    return file.header != nil
  }
}

internal import BreakerCore
internal import CSQLite

/// The file as SQLite sees it: the program that it belongs to, its version, and whether it is
/// intact.
struct TableExamination {
  let reader: Connection

  /// The examination of a large file ends after this time, with what it has found by then.
  static let patience: Duration = .seconds(10)

  /// The tables that the file has.
  enum Tables {
    case none, older, current, unknown
  }

  /// The program that the tables belong to, and their version; later checks need the tables of this
  /// version.
  func version() throws(StoreError) -> (StoreFinding, Tables) {
    let application = try reader.integer("PRAGMA application_id")
    let version = try reader.integer("PRAGMA user_version")
    if application != Migrator.applicationID {
      let tables = try reader.integer("SELECT count(*) FROM sqlite_schema")
      guard application == 0, tables == 0 else {
        return (
          StoreFinding(
            .version, .bad, "a database of another program", means: "the path is wrong",
            repair: "none: use another path"), .unknown
        )
      }
      return (
        StoreFinding(
          .version, .note, "no tables yet", means: "the next program that uses it creates them",
          repair: "create them", [.open]), .none
      )
    }
    let known = Migrator.version
    if version > known {
      return (
        StoreFinding(
          .version, .bad, "version \(version), and this program knows versions up to \(known)",
          means: "a newer program has written it", repair: "none: upgrade this program"), .unknown
      )
    }
    if version < known {
      return (
        StoreFinding(
          .version, .note, "version \(version) of \(known)",
          means: "the next program of this version migrates it; older programs then refuse it",
          repair: "none: open it once all programs are upgraded"), .older
      )
    }
    return (StoreFinding(.version, .ok, "version \(version)"), .current)
  }

  /// Whether the file has a write-ahead log, which is required to use it.
  func journal() throws(StoreError) -> StoreFinding {
    let mode = try reader.journalMode()
    let demanded = Connection.demandedJournalMode
    if mode == demanded { return StoreFinding(.journal, .ok, "mode \(mode)") }
    return StoreFinding(
      .journal, .warning, "mode \(mode): there is no write-ahead log",
      means: "another program changed it, or the file is a copy: the next program that opens the"
        + " store sets it to \(demanded)",
      repair: "set it to \(demanded)", [.open])
  }

  /// Whether the tables were created by the steps that this program knows.
  func migrations() throws(StoreError) -> StoreFinding {
    let query = try reader.prepare("SELECT number, name, checksum FROM migration ORDER BY number")
    let recorded = try query.rows { ($0.integer(0), $0.text(1) ?? "", $0.integer(2)) }
    let known = Migration.all.enumerated().map { (Int64($0) + 1, $1.name, $1.checksum) }
    guard recorded.count == known.count else {
      return StoreFinding(
        .migrations, .bad,
        "\(CountedNoun.text(recorded.count, "step")) recorded, and \(known.count) expected",
        means: "something else has changed the tables",
        repair: "none: keep a copy, and move the store away if programs fail")
    }
    for (its, ours) in zip(recorded, known) where its != ours {
      return StoreFinding(
        .migrations, .warning,
        "step \(its.0) is \(its.1), and differs from the one this program knows",
        means: "a changed program created the tables, which may differ from what this one expects",
        repair: "none: use the program that created them, or move the store away")
    }
    return StoreFinding(.migrations, .ok, "\(known.count) steps, as this program knows them")
  }

  /// Whether the file is intact; the check stops early once `isToEnd` says so.
  func integrity(unless isToEnd: @escaping () -> Bool) -> StoreFinding {
    let deadline = ExaminationDeadline(after: Self.patience, or: isToEnd)
    unsafe deadline.install(on: reader.handle)
    defer {
      unsafe sqlite3_progress_handler(reader.handle, 0, nil, nil)
      // SQLite's pointer to the deadline does not keep it alive.
      withExtendedLifetime(deadline) {}
    }
    do throws(StoreError) {
      let complaints = try reader.prepare("PRAGMA integrity_check(3)").rows { $0.text(0) ?? "" }
      if complaints == ["ok"] { return StoreFinding(.integrity, .ok, "no damage") }
      // The first row may hold several lines under a title.
      let lines = complaints.flatMap { $0.split(separator: "\n") }.filter { !$0.hasPrefix("***") }
      return Self.damaged(lines.prefix(3).joined(separator: "; "))
    } catch {
      if error.code & 0xFF == SQLITE_INTERRUPT, isToEnd() {
        return StoreFinding(
          .integrity, .note, "no damage in what was checked before this process forked",
          means: "the rest was not checked: try again")
      }
      if error.code & 0xFF == SQLITE_INTERRUPT {
        return StoreFinding(
          .integrity, .note, "no damage in what \(Self.patience) were enough to check",
          means: "the file is large: use sqlite3 to check all of a copy")
      }
      return Self.unreadable(error, isOurs: true)
    }
  }

  static func damaged(_ what: String) -> StoreFinding {
    StoreFinding(
      .integrity, .bad, what,
      means:
        "programs cannot rely on it, and go on with breakers of their own if they cannot read it",
      repair: "set it aside with the files beside it, create a new one, and take over what can be"
        + " read",
      [.startOver])
  }

  /// The finding for an unreadable file that shows no sign of ever having been a store.
  private static func strange() -> StoreFinding {
    StoreFinding(
      .integrity, .bad, "it is not a breaker store", means: "the path is wrong",
      repair: "none: use another path")
  }

  /// The finding for a store that could not be examined.
  static func unreadable(_ error: StoreError, isOurs: Bool) -> StoreFinding {
    switch error.kind {
    case .corrupt, .notAStore:
      isOurs ? damaged(unsafe String(cString: sqlite3_errstr(error.code))) : strange()
    default: StoreFinding(.integrity, .bad, error.description)
    }
  }
}

/// Interrupts a statement that takes too long.
@safe private final class ExaminationDeadline {
  private let deadline: Int64
  private let isToEnd: () -> Bool

  init(after timeout: Duration, or isToEnd: @escaping () -> Bool) {
    deadline = Patience.deadline(after: timeout)
    self.isToEnd = isToEnd
  }

  /// Watches a connection; remove the handler before this object is released.
  func install(on handle: OpaquePointer) {
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe sqlite3_progress_handler(
      handle, 10_000,
      { context in
        guard let context = unsafe context else { return 0 }
        let its = unsafe Unmanaged<ExaminationDeadline>.fromOpaque(context).takeUnretainedValue()
        return its.isToEnd() || Patience.monotonicNanoseconds() >= its.deadline ? 1 : 0
      }, context)
  }
}

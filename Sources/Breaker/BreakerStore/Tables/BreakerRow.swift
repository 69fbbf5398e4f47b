internal import BreakerCore

/// A breaker and its row: the only place that knows the columns of the table.
///
/// One line for each column names it, reads it and binds it. The leases are in a table of their own.
struct BreakerRow {
  private(set) var breaker: StoredBreaker

  /// The boot that the times of the row belong to.
  private(set) var boot: Int64

  /// The boot in which the state began.
  private(set) var bootOfState: Int64

  private var record: BreakerRecord
  private var words: AgreedWords
  private var leases: Int64

  /// The columns that stay as they are, but for the era.
  private mutating func visitFixed(_ columns: inout some ColumnVisitor) {
    columns.integer("id", &breaker.id)
    columns.name("name", &breaker.name)
    columns.integer("created_at_ms", &breaker.createdAtMilliseconds)
    columns.integer("era", &breaker.era)
  }

  /// The columns that only a change of state writes.
  private mutating func visitTally(_ columns: inout some ColumnVisitor) {
    columns.instant("state_since_ns", &record.tally.since)
    columns.integer("state_since_boot", &bootOfState)
    columns.count("closed_ns", &record.tally.nanoseconds.closed)
    columns.count("open_ns", &record.tally.nanoseconds.open)
    columns.count("half_open_ns", &record.tally.nanoseconds.halfOpen)
    columns.count("to_closed", &record.tally.entries.closed)
    columns.count("to_open", &record.tally.entries.open)
    columns.count("to_half_open", &record.tally.entries.halfOpen)
  }

  /// The columns that every write of a breaker sets; the revision is the first of them.
  private mutating func visitChanging(_ columns: inout some ColumnVisitor) {
    columns.integer("revision", &breaker.revision)
    columns.integer("boot", &boot)
    columns.integer("changed_at_ms", &record.changedAtMilliseconds)
    columns.state("state", &record.state)
    columns.count("generation", &record.generation)
    columns.mode("mode", &record.mode.mode)
    columns.instant("mode_until_ns", &record.mode.until)
    columns.integer("mode_length_ns", &record.mode.lengthNanoseconds)
    columns.integer("mode_set_at_ms", &record.mode.setAtMilliseconds)
    columns.text("mode_reason", &record.mode.reason)
    columns.text("mode_set_by", &record.mode.setBy)
    columns.count("consecutive_failures", &record.consecutiveFailures)
    columns.instant("streak_started_at_ns", &record.streakStartedAt)
    columns.instant("counted_failure_at_ns", &record.lastCountedFailureAt)
    columns.packed("failure_times", &record.failureTimes)
    columns.packed("call_window", &record.window)
    columns.packed("reporters", &record.reporters)
    columns.integer("last_failure_at_ms", &record.lastFailureAtMilliseconds)
    columns.text("last_error", &record.lastError)
    columns.instant("open_until_ns", &record.openUntil)
    columns.integer("open_length_ns", &record.openNanoseconds)
    columns.integer("opened_at_ms", &record.openedAtMilliseconds)
    columns.integer("extended_at_ms", &record.extendedAtMilliseconds)
    columns.count("growth", &record.growth)
    columns.instant("closed_at_ns", &record.closedAt)
    columns.count("trips", &record.trips)
    columns.count("last_lease", &record.lastLease)
    columns.count("probe_successes", &record.probeSuccesses)
    columns.count("probe_failures", &record.probeFailures)
    columns.count("successes", &record.totals.successes)
    columns.count("failures", &record.totals.failures)
    columns.count("ignored", &record.totals.ignored)
    columns.count("rejections", &record.totals.rejections)
    columns.count("slow", &record.totals.slow)
    columns.count("would_reject", &record.totals.wouldReject)
    columns.text("code_policy", &words.code)
    columns.text("operator_policy", &words.operator)
    columns.integer("counters_key", &breaker.countersKey)
    columns.integer("counted_successes", &breaker.takenIn.successes)
    columns.integer("counted_unjudged", &breaker.takenIn.unjudged)
    columns.integer("counted_ignored", &breaker.takenIn.ignored)
    columns.integer("counted_rejections", &breaker.takenIn.rejections)
    columns.integer("counted_slow", &breaker.takenIn.slow)
    columns.integer("counted_would_reject", &breaker.takenIn.wouldReject)
    columns.integer("used_at_ms", &breaker.usedAtMilliseconds)
    columns.count("leases", &leases)
    columns.instant("suspected_at_ns", &record.suspectedAt)
    columns.flag("is_open_time_named", &record.isOpenTimeNamed)
    columns.count("usual_probe_ns", &record.usualProbeNanoseconds)
    columns.packed("outage_times", &record.outageTimes)
    columns.instant("recovered_at_ns", &record.recoveredAt)
    columns.count("busy", &record.totals.busy)
    columns.integer("counted_busy", &breaker.takenIn.busy)
    columns.count("lost_calls", &record.totals.lostCalls)
    columns.text("open_reason", &record.openReason)
    columns.holds("hold", &record, takenIn: &breaker.takenIn)
  }
}

/// Reading and writing.
extension BreakerRow {
  private init() { self.init(StoredBreaker(id: 0, name: "", createdAtMilliseconds: 0), boot: 0) }

  /// Reads the current row, starting at a column.
  init(_ row: Statement, from column: Int32 = 0) {
    self.init()
    var reader = ColumnReader(row: row, next: column)
    visitFixed(&reader)
    visitTally(&reader)
    visitChanging(&reader)
    // The table's checks allow no others.
    record.generation = max(1, record.generation)
    record.generationOfState = max(1, min(record.generationOfState, record.generation))
    record.growth = min(record.growth, BreakerRecord.largestGrowth)
    breaker.record = record
    breaker.words = words
    breaker.leasesInFile = Int(leases)
  }

  /// The row of a breaker as this boot writes it.
  init(_ breaker: StoredBreaker, boot: Int64) {
    self.breaker = breaker
    self.boot = boot
    bootOfState = boot
    record = breaker.record
    words = breaker.words
    leases = Int64(record.leases.count)
  }

  /// Binds every value that the update of a row sets.
  mutating func bind(to update: Statement) {
    var binder = KeptBinder(update)
    binder.bind(breaker.id)
    visitChanging(&binder)
  }

  /// Binds every value that the update of a tally sets.
  mutating func bindTally(to update: Statement) {
    var binder = KeptBinder(update)
    binder.bind(breaker.id)
    visitTally(&binder)
  }
}

/// The columns in statements.
extension BreakerRow {
  private static let fixed = names { $0.visitFixed(&$1) }
  private static let tally = names { $0.visitTally(&$1) }
  private static let changing = names { $0.visitChanging(&$1) }
  private static let all = fixed + tally + changing

  private static func names(_ visit: (inout BreakerRow, inout ColumnNames) -> Void) -> [String] {
    var (row, names) = (BreakerRow(), ColumnNames())
    visit(&row, &names)
    return names.all
  }

  /// The index of the revision among all columns, counted from 0.
  static let revision = Int32(fixed.count + tally.count)

  static let columns = all.joined(separator: ", ")

  static func columns(of table: String) -> String {
    all.map { "\(table).\($0)" }.joined(separator: ", ")
  }

  /// These columns in a file that may lack some of them; missing ones read as NULL.
  static func columns(among present: Set<String>) -> String {
    all.map { present.contains($0) ? $0 : "NULL" }.joined(separator: ", ")
  }

  static let assignments = assignments(of: changing)
  static let assignmentsOfTally = assignments(of: tally)

  private static func assignments(of names: [String]) -> String {
    names.enumerated().map { "\($1) = ?\($0 + 2)" }.joined(separator: ", ")
  }
}

/// A visitor of the columns of a row, one after the other: it lists them, reads them, or binds them.
private protocol ColumnVisitor {
  mutating func integer(_ name: StaticString, _ value: inout Int64?)
  mutating func text(_ name: StaticString, _ value: inout String?)

  /// A value that is packed into bytes; of the two closures, a reader calls one and a binder the other.
  mutating func blob(
    _ name: StaticString, pack: () -> [UInt8]?, unpack: ([UInt8]?) -> Void)
}

/// Kinds of columns.
extension ColumnVisitor {
  mutating func integer(_ name: StaticString, _ value: inout Int64) {
    var number: Int64? = value
    integer(name, &number)
    value = number ?? 0
  }

  /// A number that the state machine adds to; a damaged one is clamped to leave room for that.
  mutating func count(_ name: StaticString, _ value: inout Int64) {
    integer(name, &value)
    value = Self.clamped(value)
  }

  mutating func count(_ name: StaticString, _ value: inout Int64?) {
    integer(name, &value)
    value = value.map(Self.clamped)
  }

  private static func clamped(_ count: Int64) -> Int64 { max(0, min(count, .max / 16)) }

  mutating func instant(_ name: StaticString, _ value: inout Instant?) {
    var number = value?.nanoseconds
    integer(name, &number)
    value = number.map { Instant(nanoseconds: $0) }
  }

  mutating func flag(_ name: StaticString, _ value: inout Bool) {
    var number: Int64 = value ? 1 : 0
    integer(name, &number)
    value = number != 0
  }

  /// The table's checks allow no other numbers; a damaged one reads as the harmless case.
  mutating func state(_ name: StaticString, _ value: inout BreakerState) {
    var number = Int64(value.rawValue)
    integer(name, &number)
    value = BreakerState(rawValue: Int(number)) ?? .closed
  }

  mutating func mode(_ name: StaticString, _ value: inout BreakerMode) {
    var number = Int64(value.rawValue)
    integer(name, &number)
    value = BreakerMode(rawValue: Int(number)) ?? .automatic
  }

  mutating func name(_ name: StaticString, _ value: inout String) {
    var words: String? = value
    text(name, &words)
    value = words ?? ""
  }

  mutating func packed(_ name: StaticString, _ value: inout [Instant]) {
    let known = value
    blob(name, pack: { Blobs.pack(known) }, unpack: { value = Blobs.instants($0) })
  }

  mutating func packed(_ name: StaticString, _ value: inout CallWindow) {
    let known = value
    blob(name, pack: { Blobs.pack(known) }, unpack: { value = Blobs.window($0) })
  }

  /// All about the holds and ramps of a breaker; the generation has been visited before.
  ///
  /// One column for all, because most breakers are never held, and each column takes time in every write.
  mutating func holds(
    _ name: StaticString, _ record: inout BreakerRecord, takenIn: inout Counted
  ) {
    // A hold has a number. Field by field, because a comparison of whole records copies them.
    let numbers =
      record.holds.number | record.holds.least | record.holds.unnamed | record.totals.holds
      | record.totals.held | record.totals.ramping | record.totals.overRate
      | record.totals.retries | record.totals.overBudget | takenIn.held | takenIn.ramping
      | takenIn.overRate | takenIn.retries | takenIn.overBudget
    let wasEverHeld = numbers != 0 || record.rampUntil != nil
    let packed = wasEverHeld ? Blobs.pack(StoredHolds(of: record, takenIn: takenIn)) : nil
    blob(
      name, pack: { packed },
      unpack: { Blobs.holds($0, upTo: record.generation).restore(&record, takenIn: &takenIn) })
  }

  mutating func packed(_ name: StaticString, _ value: inout [Reporter]) {
    let known = value
    blob(name, pack: { Blobs.pack(known) }, unpack: { value = Blobs.reporters($0) })
  }
}

/// Lists the names of columns.
private struct ColumnNames: ColumnVisitor {
  var all: [String] = []

  mutating func integer(_ name: StaticString, _ value: inout Int64?) { all.append("\(name)") }
  mutating func text(_ name: StaticString, _ value: inout String?) { all.append("\(name)") }

  mutating func blob(
    _ name: StaticString, pack: () -> [UInt8]?, unpack: ([UInt8]?) -> Void
  ) {
    all.append("\(name)")
  }
}

/// Reads columns.
private struct ColumnReader: ColumnVisitor {
  let row: Statement
  var next: Int32

  private mutating func column() -> Int32 {
    defer { next += 1 }
    return next
  }

  mutating func integer(_ name: StaticString, _ value: inout Int64?) {
    value = row.integerOrNil(column())
  }

  mutating func text(_ name: StaticString, _ value: inout String?) { value = row.text(column()) }

  mutating func blob(
    _ name: StaticString, pack: () -> [UInt8]?, unpack: ([UInt8]?) -> Void
  ) {
    unpack(row.blob(column()))
  }
}

/// Binds columns to the parameters of an update.
extension KeptBinder: ColumnVisitor {
  fileprivate mutating func integer(_ name: StaticString, _ value: inout Int64?) { bind(value) }
  fileprivate mutating func text(_ name: StaticString, _ value: inout String?) { bind(value) }

  fileprivate mutating func blob(
    _ name: StaticString, pack: () -> [UInt8]?, unpack: ([UInt8]?) -> Void
  ) {
    bind(pack())
  }
}

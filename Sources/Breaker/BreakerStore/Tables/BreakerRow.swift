internal import BreakerCore

/// How a breaker maps to a row: the only place that knows the columns of the table.
enum BreakerRow {
  private static let fixed = ["id", "name", "created_at_ms", "era"]
  private static let all = fixed + TallyRow.columns + changing

  /// The index of the revision among all columns, counted from 0.
  static let revision = Int32(fixed.count + TallyRow.columns.count)

  /// The columns that a transaction may change, in the order in which they are bound and read.
  private static let changing = [
    "revision", "boot", "changed_at_ms", "state", "generation", "mode", "mode_until_ns",
    "mode_length_ns", "mode_set_at_ms", "mode_reason", "mode_set_by", "consecutive_failures",
    "streak_started_at_ns", "counted_failure_at_ns", "failure_times", "call_window", "reporters",
    "last_failure_at_ms", "last_error", "open_until_ns", "open_length_ns", "opened_at_ms",
    "extended_at_ms", "growth", "closed_at_ns", "trips", "last_lease", "probe_successes",
    "probe_failures", "successes",
    "failures", "ignored", "rejections", "slow", "would_reject", "code_policy", "operator_policy",
    "counters_key", "counted_successes", "counted_unjudged", "counted_ignored",
    "counted_rejections", "counted_slow", "counted_would_reject", "used_at_ms", "leases",
    "suspected_at_ns", "is_open_time_named", "usual_probe_ns", "outage_times", "recovered_at_ns",
    "busy", "counted_busy", "lost_calls", "open_reason",
  ]

  static let columns = all.joined(separator: ", ")

  static func columns(of table: String) -> String {
    all.map { "\(table).\($0)" }.joined(separator: ", ")
  }

  /// These columns in a file that may lack some of them; missing ones read as NULL.
  static func columns(among present: Set<String>) -> String {
    all.map { present.contains($0) ? $0 : "NULL" }.joined(separator: ", ")
  }

  static let assignments = changing.enumerated().map { "\($1) = ?\($0 + 2)" }
    .joined(separator: ", ")

  /// Reads the current row, starting at a column; the leases are in a table of their own.
  ///
  /// The row's times and the beginning of its state each belong to a boot; both are returned.
  static func read(
    _ row: Statement, from column: Int32 = 0
  ) -> (breaker: StoredBreaker, boot: Int64, bootOfState: Int64) {
    var reader = RowReader(row: row, column: column)
    var breaker = StoredBreaker(
      id: reader.integer(), name: reader.text() ?? "", createdAtMilliseconds: reader.integer())
    breaker.era = reader.integer()
    let (tally, bootOfState) = TallyRow.read(&reader)
    breaker.revision = reader.integer()
    let boot = reader.integer()
    breaker.record = record(&reader)
    breaker.record.tally = tally
    breaker.words = AgreedWords(code: reader.text(), operator: reader.text())
    breaker.countersKey = reader.integer()
    breaker.takenIn.successes = reader.integer()
    breaker.takenIn.unjudged = reader.integer()
    breaker.takenIn.ignored = reader.integer()
    breaker.takenIn.rejections = reader.integer()
    breaker.takenIn.slow = reader.integer()
    breaker.takenIn.wouldReject = reader.integer()
    breaker.usedAtMilliseconds = reader.integerOrNil()
    breaker.leasesInFile = Int(reader.count())
    breaker.record.suspectedAt = reader.instant()
    breaker.record.isOpenTimeNamed = reader.integer() != 0
    breaker.record.usualProbeNanoseconds = reader.countOrNil()
    breaker.record.outageTimes = Blobs.instants(reader.blob())
    breaker.record.recoveredAt = reader.instant()
    breaker.record.totals.busy = reader.count()
    breaker.takenIn.busy = reader.integer()
    breaker.record.totals.lostCalls = reader.count()
    breaker.record.openReason = reader.text()
    return (breaker, boot, bootOfState)
  }

  private static func record(_ row: inout RowReader) -> BreakerRecord {
    var record = BreakerRecord()
    record.changedAtMilliseconds = row.integerOrNil()
    // The table's checks allow no other numbers; a damaged one reads as the harmless case.
    record.state = BreakerState(rawValue: Int(row.integer())) ?? .closed
    record.generation = max(1, row.count())
    record.mode.mode = BreakerMode(rawValue: Int(row.integer())) ?? .automatic
    record.mode.until = row.instant()
    record.mode.lengthNanoseconds = row.integer()
    record.mode.setAtMilliseconds = row.integerOrNil()
    record.mode.reason = row.text()
    record.mode.setBy = row.text()
    record.consecutiveFailures = row.count()
    record.streakStartedAt = row.instant()
    record.lastCountedFailureAt = row.instant()
    record.failureTimes = Blobs.instants(row.blob())
    record.window = Blobs.window(row.blob())
    record.reporters = Blobs.reporters(row.blob())
    record.lastFailureAtMilliseconds = row.integerOrNil()
    record.lastError = row.text()
    record.openUntil = row.instant()
    record.openNanoseconds = row.integer()
    record.openedAtMilliseconds = row.integerOrNil()
    record.extendedAtMilliseconds = row.integerOrNil()
    record.growth = min(row.count(), BreakerRecord.largestGrowth)
    record.closedAt = row.instant()
    record.trips = row.count()
    record.lastLease = row.count()
    record.probeSuccesses = row.count()
    record.probeFailures = row.count()
    record.totals.successes = row.count()
    record.totals.failures = row.count()
    record.totals.ignored = row.count()
    record.totals.rejections = row.count()
    record.totals.slow = row.count()
    record.totals.wouldReject = row.count()
    return record
  }

  /// Binds every value that the update of a row sets.
  static func bind(_ breaker: StoredBreaker, boot: Int64, to update: Statement) {
    bind(breaker, breaker.record, boot: boot, to: update)
  }

  private static func bind(
    _ breaker: StoredBreaker, _ record: BreakerRecord, boot: Int64, to update: Statement
  ) {
    var row = KeptBinder(update)
    row.bind(breaker.id)
    row.bind(breaker.revision)
    row.bind(boot)
    row.bind(record.changedAtMilliseconds)
    row.bind(Int64(record.state.rawValue))
    row.bind(record.generation)
    row.bind(Int64(record.mode.mode.rawValue))
    row.bind(record.mode.until?.nanoseconds)
    row.bind(record.mode.lengthNanoseconds)
    row.bind(record.mode.setAtMilliseconds)
    row.bind(record.mode.reason)
    row.bind(record.mode.setBy)
    row.bind(record.consecutiveFailures)
    row.bind(record.streakStartedAt?.nanoseconds)
    row.bind(record.lastCountedFailureAt?.nanoseconds)
    row.bind(Blobs.pack(record.failureTimes))
    row.bind(Blobs.pack(record.window))
    row.bind(Blobs.pack(record.reporters))
    row.bind(record.lastFailureAtMilliseconds)
    row.bind(record.lastError)
    row.bind(record.openUntil?.nanoseconds)
    row.bind(record.openNanoseconds)
    row.bind(record.openedAtMilliseconds)
    row.bind(record.extendedAtMilliseconds)
    row.bind(record.growth)
    row.bind(record.closedAt?.nanoseconds)
    row.bind(record.trips)
    row.bind(record.lastLease)
    row.bind(record.probeSuccesses)
    row.bind(record.probeFailures)
    row.bind(record.totals.successes)
    row.bind(record.totals.failures)
    row.bind(record.totals.ignored)
    row.bind(record.totals.rejections)
    row.bind(record.totals.slow)
    row.bind(record.totals.wouldReject)
    row.bind(breaker.words.code)
    row.bind(breaker.words.operator)
    row.bind(breaker.countersKey)
    row.bind(breaker.takenIn.successes)
    row.bind(breaker.takenIn.unjudged)
    row.bind(breaker.takenIn.ignored)
    row.bind(breaker.takenIn.rejections)
    row.bind(breaker.takenIn.slow)
    row.bind(breaker.takenIn.wouldReject)
    row.bind(breaker.usedAtMilliseconds)
    row.bind(Int64(record.leases.count))
    row.bind(record.suspectedAt?.nanoseconds)
    row.bind(record.isOpenTimeNamed ? 1 : 0)
    row.bind(record.usualProbeNanoseconds)
    row.bind(Blobs.pack(record.outageTimes))
    row.bind(record.recoveredAt?.nanoseconds)
    row.bind(record.totals.busy)
    row.bind(breaker.takenIn.busy)
    row.bind(record.totals.lostCalls)
    row.bind(record.openReason)
  }
}

/// Reads one column after another.
private struct RowReader {
  let row: Statement
  var column: Int32

  private mutating func next() -> Int32 {
    defer { column += 1 }
    return column
  }

  mutating func integer() -> Int64 { row.integer(next()) }

  /// A number that the state machine adds to; a damaged one is clamped to leave room for that.
  mutating func count() -> Int64 { Self.count(integer()) }

  mutating func countOrNil() -> Int64? { integerOrNil().map(Self.count) }

  private static func count(_ number: Int64) -> Int64 { max(0, min(number, .max / 16)) }

  mutating func integerOrNil() -> Int64? { row.integerOrNil(next()) }
  mutating func text() -> String? { row.text(next()) }
  mutating func blob() -> [UInt8]? { row.blob(next()) }
  mutating func instant() -> Instant? { integerOrNil().map { Instant(nanoseconds: $0) } }
}

/// How a breaker's tally of states is stored in its row; only a change of state writes it.
enum TallyRow {
  static let columns = [
    "state_since_ns", "state_since_boot", "closed_ns", "open_ns", "half_open_ns", "to_closed",
    "to_open", "to_half_open",
  ]

  static let assignments = columns.enumerated().map { "\($1) = ?\($0 + 2)" }
    .joined(separator: ", ")

  /// Reads the columns, and the boot in which the state began.
  fileprivate static func read(_ row: inout RowReader) -> (tally: StateTally, boot: Int64) {
    var tally = StateTally()
    tally.since = row.instant()
    let boot = row.integer()
    tally.nanoseconds.closed = row.count()
    tally.nanoseconds.open = row.count()
    tally.nanoseconds.halfOpen = row.count()
    tally.entries.closed = row.count()
    tally.entries.open = row.count()
    tally.entries.halfOpen = row.count()
    return (tally, boot)
  }

  /// Writes the tally of a breaker whose state has changed in this boot.
  static func save(
    _ breaker: StoredBreaker, on connection: Connection, boot: Int64
  ) throws(StoreError) {
    let tally = breaker.record.tally
    let update = try connection.statement(.updateTally)
    update.bind(1, breaker.id)
    update.bind(2, tally.since?.nanoseconds)
    update.bind(3, boot)
    update.bind(4, tally.nanoseconds.closed)
    update.bind(5, tally.nanoseconds.open)
    update.bind(6, tally.nanoseconds.halfOpen)
    update.bind(7, tally.entries.closed)
    update.bind(8, tally.entries.open)
    update.bind(9, tally.entries.halfOpen)
    try update.run()
  }
}

/// Small values packed into bytes: 64-bit integers, least significant byte first.
///
/// Bytes that cannot be decoded read as empty. They are statistics, and damage to them must not
/// keep a breaker from working.
enum Blobs {
  static func pack(_ numbers: [Int64]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(numbers.count * 8)
    for number in numbers {
      for shift in stride(from: 0, to: 64, by: 8) {
        bytes.append(UInt8(truncatingIfNeeded: number >> Int64(shift)))
      }
    }
    return bytes
  }

  static func unpack(_ bytes: some Collection<UInt8>) -> [Int64] {
    var numbers: [Int64] = []
    var rest = bytes[...]
    while rest.count >= 8 {
      var number: UInt64 = 0
      for byte in rest.prefix(8).reversed() { number = number << 8 | UInt64(byte) }
      numbers.append(Int64(bitPattern: number))
      rest = rest.dropFirst(8)
    }
    return numbers
  }
}

/// The failure times and the outage times of a record.
extension Blobs {
  static func pack(_ instants: [Instant]) -> [UInt8]? {
    instants.isEmpty ? nil : pack(instants.map(\.nanoseconds))
  }

  static func instants(_ bytes: [UInt8]?) -> [Instant] {
    unpack(bytes ?? []).map { Instant(nanoseconds: $0) }
  }
}

/// The reporters of a record.
extension Blobs {
  static func pack(_ reporters: [Reporter]) -> [UInt8]? {
    guard !reporters.isEmpty else { return nil }
    return pack(
      reporters.flatMap {
        [
          Int64($0.evidence.rawValue), Int64($0.process.pid),
          Int64(bitPattern: $0.process.startTicks),
          Int64(bitPattern: $0.process.pidNamespace), $0.at.nanoseconds, $0.call,
        ]
      })
  }

  static func reporters(_ bytes: [UInt8]?) -> [Reporter] {
    let numbers = unpack(bytes ?? [])
    return stride(from: 0, to: numbers.count - numbers.count % 6, by: 6).compactMap { at in
      guard let evidence = Reporter.Evidence(rawValue: Int(numbers[at])) else { return nil }
      let process = ProcessIdentity(
        pid: Int32(truncatingIfNeeded: numbers[at + 1]),
        startTicks: UInt64(bitPattern: numbers[at + 2]),
        pidNamespace: UInt64(bitPattern: numbers[at + 3]))
      return Reporter(
        process: process, evidence: evidence, at: Instant(nanoseconds: numbers[at + 4]),
        call: numbers[at + 5])
    }
  }
}

/// The call window of a record: its kind, its size, and its counts.
extension Blobs {
  private static let timeKind: Int64 = 1
  private static let lastKind: Int64 = 2

  static func pack(_ window: CallWindow) -> [UInt8]? {
    switch window {
    case .none:
      return nil
    case .time(let window):
      let buckets = window.buckets.flatMap {
        [$0.epoch, $0.counts.calls, $0.counts.failures, $0.counts.slow]
      }
      return pack([timeKind, window.length] + buckets)
    case .last(let window):
      return pack([lastKind, Int64(window.capacity), window.sequence]) + window.calls
    }
  }

  static func window(_ bytes: [UInt8]?) -> CallWindow {
    guard let bytes else { return .none }
    switch unpack(bytes.prefix(8)).first {
    case timeKind: return timeWindow(unpack(bytes)).map { .time($0) } ?? .none
    case lastKind: return lastCallsWindow(bytes).map { .last($0) } ?? .none
    default: return .none
    }
  }

  private static func timeWindow(_ numbers: [Int64]) -> TimeWindow? {
    guard numbers.count == 2 + TimeWindow.bucketCount * 4, numbers[1] > 0,
      numbers.dropFirst(2).allSatisfy({ $0 >= -1 && $0 < .max / 16 })
    else { return nil }
    var window = TimeWindow(length: numbers[1])
    for index in 0..<TimeWindow.bucketCount {
      let at = 2 + index * 4
      window.buckets[index].epoch = numbers[at]
      window.buckets[index].counts.calls = numbers[at + 1]
      window.buckets[index].counts.failures = numbers[at + 2]
      window.buckets[index].counts.slow = numbers[at + 3]
    }
    return window
  }

  private static func lastCallsWindow(_ bytes: [UInt8]) -> LastCallsWindow? {
    let numbers = unpack(bytes.prefix(24))
    let calls = Array(bytes.dropFirst(24))
    guard numbers.count == 3, (1...10_000).contains(numbers[1]), numbers[2] >= 0,
      numbers[2] < .max / 2, Int64(calls.count) == min(numbers[1], numbers[2])
    else { return nil }
    var window = LastCallsWindow(capacity: Int(numbers[1]))
    window.sequence = numbers[2]
    window.calls = calls
    return window
  }
}

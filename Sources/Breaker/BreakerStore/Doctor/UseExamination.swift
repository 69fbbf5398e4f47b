internal import BreakerCore

/// How the store is used: its breakers, their probes, policies and history.
struct UseExamination {
  let reader: Connection
  let clock: StoreClock
  let users: StoreUsers

  /// How many breakers the store may have.
  let room: Int64

  func findings() throws(StoreError) -> [StoreFinding] {
    [try breakers(), try leases(), try policies(), try history(), try times()]
  }

  private func breakers() throws(StoreError) -> StoreFinding {
    let count = try reader.integer("SELECT count(*) FROM breaker")
    let limit = room
    let found = "\(count) of at most \(limit)"
    guard count * 10 >= limit * 9 else { return StoreFinding(.breakers, .ok, found) }
    return StoreFinding(
      .breakers, count >= limit ? .warning : .note, found,
      means: count >= limit
        ? "no other can be created: each process goes on with its own breakers of new names"
        : "soon no other can be created",
      repair: "none: delete what nobody uses with 'cbctl delete', and find out who creates so many")
  }

  /// Finds probes that are over, which block no call but are not in the history yet.
  private func leases() throws(StoreError) -> StoreFinding {
    let left = try LeaseRemains.find(on: reader, clock: clock)
    let all = try reader.integer("SELECT count(*) FROM lease")
    guard !left.isEmpty else {
      return StoreFinding(.leases, .ok, CountedNoun.text(all, "probe") + " under way")
    }
    let first = left.prefix(3).map { "\($0.name) (\($0.why))" }.joined(separator: ", ")
    return StoreFinding(
      .leases, .note,
      "\(CountedNoun.text(all - Int64(left.count), "probe")) under way, and \(left.count) over: "
        + "\(first)\(left.count > 3 ? ", ..." : "")",
      means: "the slots are free; the next call records how each probe ended",
      repair: "record it now", [.freeLeases])
  }

  /// Finds running programs that declare other policies, and operators' values that no longer fit.
  private func policies() throws(StoreError) -> StoreFinding {
    var complaints: [String] = []
    let query = try reader.prepare(
      """
      SELECT b.name, d.pid, d.program FROM declaration d JOIN breaker b ON b.id = d.breaker
      WHERE d.policy IS NOT b.code_policy ORDER BY b.name
      """)
    // A program that was upgraded since has left its declaration, but no longer runs.
    let running = Set(users.readers.map(\.pid))
    complaints += try query.rows { row -> String? in
      let pid = Int32(truncatingIfNeeded: row.integer(1))
      guard running.contains(pid) else { return nil }
      return "\(row.text(0) ?? ""): \(row.text(2) ?? "") (\(pid)) declares another policy"
    }.compactMap { $0 }
    let overruled = try reader.prepare(
      "SELECT name, code_policy, operator_policy FROM breaker WHERE operator_policy IS NOT NULL")
    let unfit = try overruled.rows {
      Self.fit(AgreedWords(code: $0.text(1), operator: $0.text(2))) ? nil : $0.text(0) ?? ""
    }.compactMap { $0 }
    complaints += unfit.map { "\($0): the operator's values no longer fit the code's" }
    guard !complaints.isEmpty else {
      return StoreFinding(.policies, .ok, "no running program disagrees")
    }
    let shown = complaints.prefix(3).joined(separator: "; ")
    return StoreFinding(
      .policies, .warning, shown + (complaints.count > 3 ? "; ..." : ""),
      means: "the policy that was declared last is in force, without the operator's values that do"
        + " not fit",
      repair: "none, because only you know which is right: settle it with 'cbctl policy'")
  }

  private static func fit(_ words: AgreedWords) -> Bool {
    do throws(PolicyError) {
      _ = try words.checked()
      return true
    } catch {
      return false
    }
  }

  private func history() throws(StoreError) -> StoreFinding {
    let count = try reader.integer("SELECT count(*) FROM event")
    let limit = RecordedEvent.mostOfAll
    let isFull = count >= limit
    // After a deletion or a restore, this tells which store it is.
    let created = try reader.integer("SELECT created_at_ms FROM store")
    let begun = UTC.text(created, as: "%Y-%m-%dT%H:%M:%SZ")
    return StoreFinding(
      .history, isFull ? .note : .ok,
      "\(count) of at most \(limit) entries, in a store that was created at \(begun)",
      means: isFull ? "each new entry replaces the oldest one" : nil)
  }

  private func times() throws(StoreError) -> StoreFinding {
    if let finding = try FalseTimes.finding(on: reader, clock: clock) { return finding }
    let latest = try reader.integer(
      """
      SELECT max(coalesce((SELECT max(at_ms) FROM event), 0),
        coalesce((SELECT max(changed_at_ms) FROM breaker), 0))
      """)
    let ahead = (latest - clock.wallMilliseconds) / 1_000
    if ahead > 60 {
      return StoreFinding(
        .clock, .note, "the latest entry is \(ahead) s ahead of the clock",
        means: "the wall clock was set back; nothing depends on it before the next boot")
    }
    guard let id = clock.bootID else {
      return StoreFinding(
        .clock, .note, "this process cannot read the kernel's boot id",
        means: "it relies on the clocks, and on the processes that have the store open")
    }
    let noted = reader.header(clock)
    guard !noted.isAgreed || noted.boot.id == nil || noted.boot.id == id else {
      return StoreFinding(
        .clock, .note,
        "this process reads another boot id than the one that the store recorded for this boot",
        means: "a container may have its own; the store uses only what every process can read")
    }
    return StoreFinding(.clock, .ok, "this boot is known, and no entry is ahead of the clock")
  }
}

/// A probe that is over without a record of its end.
struct LeaseRemains {
  var name: String
  var why: String

  static func find(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> [LeaseRemains] {
    let query = try connection.prepare(
      """
      SELECT b.name, b.boot, l.pid, l.start_ticks, l.pid_namespace,
        l.lifeline, l.lifeline_file, l.deadline_ns
      FROM lease l JOIN breaker b ON b.id = l.breaker ORDER BY b.name, l.id
      """)
    let now = clock.instant
    let boot = connection.header(clock).boot.number
    return try query.rows { row -> LeaseRemains? in
      let name = row.text(0) ?? ""
      if row.integer(1) != boot {
        return LeaseRemains(name: name, why: "it is from an earlier boot")
      }
      if now.nanoseconds >= row.integer(7) {
        return LeaseRemains(name: name, why: "its time is over")
      }
      if let owner = row.process(2), OwnerJudge(of: connection.path).isGone(owner) {
        return LeaseRemains(name: name, why: "process \(owner.pid) has ended")
      }
      return nil
    }.compactMap { $0 }
  }
}

/// Finds times that no process with the host's clock can have written.
private enum FalseTimes {
  /// The names of the breakers that hold such times.
  static func breakers(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> [String] {
    let query = try connection.prepare("SELECT \(BreakerRow.columns) FROM breaker ORDER BY name")
    return try query.rows { row throws(StoreError) -> String? in
      let breaker = try ReadTransaction(on: connection, clock: clock).breaker(row)
      return breaker.hasFalseTimesInFile ? breaker.name : nil
    }.compactMap { $0 }
  }

  static func finding(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoreFinding? {
    let names = try breakers(on: connection, clock: clock)
    guard let first = names.first else { return nil }
    let who = names.count == 1 ? first : "\(first) and \(names.count - 1) more"
    return StoreFinding(
      .clock, .warning, "the times of \(who) lie further ahead than any policy allows",
      means: "a process with a false clock, such as libfaketime's, wrote them: no program believes"
        + " them, and what they would end is over",
      repair: "correct them", [.correctTimes])
  }
}

extension SQLiteStorage {
  /// Replaces false times by those that every process assumes, as the next call would.
  func correctTimes() throws(StoreError) {
    let names = try readFile(isLong: false) { connection throws(StoreError) in
      try FalseTimes.breakers(on: connection, clock: clock)
    }
    for name in names { _ = try transact(name, orCreate: false, wait: .usual) { _ in } }
  }
}

/// Checks this host's part in its fleet.
struct FleetExamination {
  let reader: Connection

  let clock: StoreClock

  /// The path of the store.
  let path: String

  /// The findings; none if the store belongs to no fleet.
  func findings() throws(StoreError) -> [StoreFinding] {
    guard let fleet = try ReadTransaction(on: reader, clock: clock).fleet() else { return [] }
    let place = "fleet \(StoreError.visible(fleet.fleet)), as \(StoreError.visible(fleet.host))"
    let waiting = Int64(fleet.waiting)
    let commands = waiting == 0 ? "" : "; \(CountedNoun.text(waiting, "command")) waiting"
    guard try StoreLock.isClaimed(path) else {
      return [
        StoreFinding(
          .fleet, .warning, "\(place): no relay runs\(commands)",
          means: "this host goes on without the others, and they go on without it",
          repair: "none: start cbrelay, or run 'cbctl fleet leave' if the host is to leave")
      ]
    }
    guard fleet.isConnected else {
      let since = fleet.changedAtMilliseconds.map { " for \(age(of: $0))" } ?? " yet"
      let problem = fleet.problem.map { " (\($0))" } ?? ""
      return [
        StoreFinding(
          .fleet, .warning, "\(place): the relay has not reached it\(since)\(problem)\(commands)",
          means: "this host goes on without the others, and they go on without it",
          repair: fleet.problem == nil
            ? "none: the relay connects as soon as it can"
            : "none: remove the cause, and the relay connects by itself")
      ]
    }
    guard let refusal = fleet.refusal else {
      return [StoreFinding(.fleet, .ok, "\(place): the relay is connected\(commands)")]
    }
    let refused = CountedNoun.text(Int64(fleet.refused), "command")
    return [
      StoreFinding(
        .fleet, .warning,
        "\(place): the relay is connected, and \(refused) cannot go out (\(refusal))",
        means: "the other hosts do not follow what was given here",
        repair: "none: remove the cause, and they go out, or take them back with 'cbctl fleet"
          + " withdraw NAME'")
    ]
  }

  /// How long ago a time was, in one unit.
  private func age(of milliseconds: Int64) -> String {
    let seconds = max(0, clock.wallMilliseconds - milliseconds) / 1_000
    let unit: Int64 = seconds < 120 ? 1 : seconds < 7_200 ? 60 : 3_600
    return DurationText.format(.seconds(seconds / unit * unit))
  }
}

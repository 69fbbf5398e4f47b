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

  /// Finds probes that are over, which block nobody but are not in the history yet.
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
    return StoreFinding(
      .history, isFull ? .note : .ok, "\(count) of at most \(limit) entries",
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

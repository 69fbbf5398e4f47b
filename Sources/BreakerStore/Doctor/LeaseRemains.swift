internal import BreakerCore

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

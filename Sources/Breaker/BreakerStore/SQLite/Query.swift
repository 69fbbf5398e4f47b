internal import BreakerCore

/// Every statement that a connection keeps prepared; no outside text ever becomes part of one.
enum Query: Int, CaseIterable {
  case begin, beginReading, commit
  case breakerByName, breakerByID, changes, namesByPrefix, namesByState
  case breakersAtLimit, insertBreaker, updateBreaker, updateTally, moveBreaker, deleteBreaker
  case header, nextRevision, proveWritable
  case leases, insertLease, deleteLeases
  case insertEvent, breakersOfEventsAfter, trimEvents, trimEventsOfBreaker, history
  case storeOfEvents, eventsAfter, eventsOfNameAfter
  case hook, saveHook, raiseRevision, anyBreaker
  case declare, declarations, trimDeclarations
  case fleet, saveFleet
  case registers, registersOfBreaker, saveRegister
  case orders, ordersOfBreaker, hasOrders, insertOrder, refuseOrder, deleteOrders
  case deleteLaterOrders, deleteLaterRegisters, deleteRegister

  var sql: String {
    switch self {
    case .begin: "BEGIN IMMEDIATE"
    case .beginReading: "BEGIN"
    case .commit: "COMMIT"
    case .breakerByName: "SELECT \(BreakerRow.columns) FROM breaker WHERE name = ?1"
    case .breakerByID: "SELECT \(BreakerRow.columns) FROM breaker WHERE id = ?1"
    // One statement, so that a reader that is up to date pays for little more than the transaction.
    case .changes:
      """
      SELECT identity, deleted_revision, lineage, store.boot, \(BreakerRow.columns(of: "b")) FROM store
      LEFT JOIN breaker b ON b.era >= coalesce(?1, (SELECT max(era) FROM breaker))
      """
    // No byte of UTF-8 is as high as the one that ends the range. The index of names is enough.
    case .namesByPrefix:
      """
      SELECT id, name FROM breaker WHERE name >= ?1 AND name < ?1 || CAST(x'ff' AS TEXT)
      ORDER BY name
      """
    // The '+' keeps SQLite off that index: looking up each row by name is slower than reading all.
    case .namesByState:
      """
      SELECT id, name FROM breaker WHERE state IN (?2, ?3)
        AND +name >= ?1 AND +name < ?1 || CAST(x'ff' AS TEXT)
      ORDER BY +name
      """
    case .breakersAtLimit:
      """
      SELECT CASE WHEN coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'breaker'), 0) < ?1
        THEN 0 ELSE (SELECT count(*) FROM breaker) END
      """
    case .insertBreaker:
      """
      INSERT INTO breaker (
        name, revision, boot, created_at_ms, era, state_since_ns, state_since_boot)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?3) RETURNING id
      """
    case .updateBreaker: "UPDATE breaker SET \(BreakerRow.assignments) WHERE id = ?1"
    case .updateTally: "UPDATE breaker SET \(BreakerRow.assignmentsOfTally) WHERE id = ?1"
    case .moveBreaker: "UPDATE breaker SET era = ?2 WHERE id = ?1"
    case .deleteBreaker: "DELETE FROM breaker WHERE id = ?1"
    case .header:
      """
      SELECT identity, lineage, lineage_file, boot, boot_id, booted_at_ms, boot_seen_ns,
        \(Self.revisionToCome)
      FROM store
      """
    case .nextRevision: "SELECT \(Self.revisionToCome) FROM store"
    // Always a new value, because writing the same one again would be no write at all.
    case .proveWritable:
      "UPDATE store SET recovered_at_ms = max(?1, coalesce(recovered_at_ms + 1, 0))"
    case .leases:
      """
      SELECT id, \(Self.ownerColumns), deadline_ns, generation, began_at_ns FROM lease
      WHERE breaker = ?1 ORDER BY id
      """
    case .insertLease:
      """
      INSERT INTO lease (
        breaker, id, \(Self.ownerColumns), deadline_ns, generation, began_at_ns)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
      """
    case .deleteLeases: "DELETE FROM lease WHERE breaker = ?1"
    case .insertEvent:
      """
      INSERT INTO event (
        at_ms, name, kind, from_word, to_word, reason, pid, program, previous, origin, user,
        command, begins_outage, given_by, verified_user, is_proven)
      VALUES (
        ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT max(id) FROM event WHERE name = ?2), ?9, ?10, ?11,
        ?12, ?13, ?14, ?15)
      RETURNING id
      """
    case .breakersOfEventsAfter:
      "SELECT DISTINCT name, \(Self.isPolicyEvent) FROM event WHERE id > ?1"
    case .trimEvents: "DELETE FROM event WHERE id <= ?1"
    case .trimEventsOfBreaker:
      """
      DELETE FROM event WHERE name = ?1 AND (\(Self.isPolicyEvent)) = ?2 AND id <= (
        SELECT id FROM event WHERE name = ?1 AND (\(Self.isPolicyEvent)) = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)
      """
    case .history:
      """
      SELECT \(Self.eventColumns) FROM event
      WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR at_ms >= ?2) ORDER BY id DESC LIMIT ?3
      """
    case .storeOfEvents: "SELECT identity, coalesce((SELECT max(id) FROM event), 0) FROM store"
    case .eventsAfter: "SELECT \(Self.eventColumns) FROM event WHERE id > ?1 ORDER BY id LIMIT ?2"
    case .eventsOfNameAfter:
      """
      SELECT \(Self.eventColumns) FROM event WHERE id > ?1 AND name = ?3 ORDER BY id LIMIT ?2
      """
    case .hook:
      """
      SELECT handled, failures, claim, \(Self.ownerColumns), boot, until_ns FROM hook
      WHERE name = ?1
      """
    case .saveHook:
      """
      INSERT OR REPLACE INTO hook (
        name, handled, failures, claim, \(Self.ownerColumns), boot, until_ns)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
      """
    case .raiseRevision: "UPDATE breaker SET revision = ?2, era = ?3 WHERE name = ?1"
    case .anyBreaker:
      "SELECT name FROM breaker WHERE era = (SELECT max(era) FROM breaker) LIMIT 1"
    case .declare:
      """
      INSERT INTO declaration (breaker, policy, declared_at_ms, pid, program)
      VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET
        declared_at_ms = excluded.declared_at_ms, pid = excluded.pid, program = excluded.program
      """
    case .declarations:
      """
      SELECT d.policy, d.declared_at_ms, d.pid, d.program FROM declaration d
      JOIN breaker b ON b.id = d.breaker WHERE b.name = ?1 ORDER BY d.declared_at_ms, d.policy
      """
    case .trimDeclarations:
      """
      DELETE FROM declaration WHERE breaker = ?1 AND policy NOT IN (
        SELECT policy FROM declaration WHERE breaker = ?1
        ORDER BY declared_at_ms DESC LIMIT ?2)
      """
    case .fleet:
      """
      SELECT fleet, host, stamp, epoch, number, entry, is_connected, changed_at_ms, problem,
        CASE WHEN ?1 THEN (SELECT count(*) FROM fleet_outbox) ELSE 0 END,
        CASE WHEN ?1 THEN (SELECT count(*) FROM fleet_outbox WHERE refusal IS NOT NULL) ELSE 0 END,
        (SELECT refusal FROM fleet_outbox WHERE refusal IS NOT NULL ORDER BY id LIMIT 1),
        withdrawals
      FROM fleet
      """
    case .saveFleet:
      """
      INSERT OR REPLACE INTO fleet (
        id, fleet, host, stamp, epoch, number, entry, is_connected, changed_at_ms, problem,
        withdrawals)
      VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
      """
    case .registers:
      "SELECT is_in_force, \(FleetOrderColumns.list) FROM fleet_command ORDER BY breaker, aspect"
    case .registersOfBreaker:
      """
      SELECT is_in_force, \(FleetOrderColumns.list) FROM fleet_command WHERE breaker = ?1
      """
    case .saveRegister:
      """
      INSERT OR REPLACE INTO fleet_command (aspect, is_in_force, \(FleetOrderColumns.list))
      VALUES (?1, ?2, \(FleetOrderColumns.parameters(from: 3)))
      """
    case .orders:
      """
      SELECT id, \(FleetOrderColumns.list), refusal FROM fleet_outbox
      ORDER BY id LIMIT ?1
      """
    case .ordersOfBreaker:
      """
      SELECT id, \(FleetOrderColumns.list), refusal FROM fleet_outbox
      WHERE breaker = ?2 ORDER BY id LIMIT ?1
      """
    case .hasOrders: "SELECT EXISTS (SELECT 1 FROM fleet_outbox)"
    case .insertOrder:
      """
      INSERT INTO fleet_outbox (\(FleetOrderColumns.list))
      VALUES (\(FleetOrderColumns.parameters(from: 1)))
      """
    case .refuseOrder: "UPDATE fleet_outbox SET refusal = ?2 WHERE id = ?1"
    case .deleteOrders: "DELETE FROM fleet_outbox WHERE id BETWEEN ?1 AND ?2"
    case .deleteLaterOrders: "DELETE FROM fleet_outbox WHERE stamp > ?1"
    case .deleteLaterRegisters: "DELETE FROM fleet_command WHERE stamp > ?1"
    case .deleteRegister: "DELETE FROM fleet_command WHERE breaker = ?1 AND aspect = ?2"
    }
  }

  /// The columns of `Statement.process`, in its order.
  private static let ownerColumns = "pid, start_ticks, pid_namespace, lifeline, lifeline_file"

  private static let revisionToCome = """
    max(deleted_revision, coalesce((
      SELECT max(revision) FROM breaker WHERE era = (SELECT max(era) FROM breaker)), 0)) + 1
    """

  private static let isPolicyEvent = "kind = \(BreakerChange.Kind.policy.rawValue)"

  private static let eventColumns = """
    id, at_ms, name, kind, from_word, to_word, reason, pid, program, previous, origin, user, command,
    begins_outage, given_by, verified_user, is_proven
    """
}

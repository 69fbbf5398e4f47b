import TestSupport

/// The contents of a store, without what differs when the same is done again.
enum Contents {
  private static let columns = """
    name, state, generation, mode, mode_reason, consecutive_failures, failures, ignored, trips,
    last_lease, probe_successes, open_until_ns, opened_at_ms, last_error, code_policy,
    operator_policy, revision
    """

  private static let parts = [
    "SELECT 'breaker', \(columns) FROM breaker ORDER BY name",
    "SELECT 'event', id, at_ms, name, kind, from_word, to_word, reason, previous FROM event",
    "SELECT 'lease', breaker, id, generation, deadline_ns FROM lease",
    "SELECT 'declaration', breaker, policy FROM declaration",
    "SELECT 'hook', name, handled, failures, claim, pid IS NULL FROM hook",
  ]

  /// The contents of a store that has not been created yet, with or without its file.
  static let nothing = "nothing"

  static func read(_ path: String) throws -> String {
    let tables = "SELECT count(*) FROM sqlite_schema"
    guard Files.exists(path), try Database.value(path, tables) != "0" else { return nothing }
    if let older = try OlderStore.contents(path) { return older }
    let lines = try Database.rows(path, parts.joined(separator: ";"))
    return lines.map { $0.joined(separator: "|") }.joined(separator: "\n")
  }

  /// Returns descriptions of contradictions in a store; none if it is sound.
  static func complaints(about path: String) throws -> [String] {
    guard try read(path) != nothing else { return [] }
    let isOlder = try OlderStore.contents(path) != nil
    let checks = (isOlder ? [:] : contradictions).map { "SELECT '\($0)' WHERE (\($1)) > 0" }
    return try Database.rows(path, "PRAGMA integrity_check;" + checks.joined(separator: ";"))
      .map { $0[0] }.filter { $0 != "ok" }
  }

  private static let contradictions = [
    "a lease without its breaker": """
    SELECT count(*) FROM lease WHERE breaker NOT IN (SELECT id FROM breaker)
    """,
    "a breaker that has another number of leases than it says": """
    SELECT count(*) FROM breaker b
    WHERE leases <> (SELECT count(*) FROM lease WHERE breaker = b.id)
    """,
    "a declaration without its breaker": """
    SELECT count(*) FROM declaration WHERE breaker NOT IN (SELECT id FROM breaker)
    """,
    "a state that its latest transition does not lead to": """
    SELECT count(*) FROM breaker b JOIN event e ON e.id = (
      SELECT max(id) FROM event WHERE name = b.name AND kind IN (0, 2, 4))
    WHERE e.to_word <> 'deleted'
      AND e.to_word <> CASE b.state WHEN 0 THEN 'closed' WHEN 1 THEN 'open' ELSE 'half_open' END
    """,
    "an event that names another one before it": """
    SELECT count(*) FROM event e WHERE previous IS NOT
      (SELECT max(id) FROM event WHERE name = e.name AND id < e.id)
    """,
  ]
}

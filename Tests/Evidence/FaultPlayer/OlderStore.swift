import TestSupport

/// A store as the first version created it.
enum OlderStore {
  private static let migrations =
    #filePath.split(separator: "/").dropLast(4).map { "/" + $0 }.joined() + "/migrations"

  static func make(_ path: String) throws {
    let tables = try Files.read(migrations + "/0001_create_breakers.sql")
    Files.removeAll(StoreDirectory.of(path))
    try Files.makeDirectory(StoreDirectory.of(path), mode: 0o700)
    try Files.write(path, [])
    try Database.rows(
      path,
      """
      PRAGMA journal_mode = WAL; BEGIN; \(String(decoding: tables, as: UTF8.self))
      INSERT INTO migration VALUES (1, '0001_create_breakers.sql', 0, 0);
      INSERT INTO store (id, identity, created_at_ms) VALUES (1, 42, 0);
      INSERT INTO breaker (name, revision, era, consecutive_failures, failures)
        VALUES ('api', 70, 1, 1, 3), ('other', 7, 0, 0, 0);
      INSERT INTO event (id, at_ms, name, kind, from_word, to_word, pid, program)
        VALUES (1, 0, 'api', 2, 'open', 'closed', 1, 'older');
      PRAGMA application_id = \(0x5342_524B); PRAGMA user_version = 1; COMMIT;
      """)
  }

  /// The contents of a store that has not been migrated yet; nil if it has.
  static func contents(_ path: String) throws -> String? {
    let isCurrent = "SELECT count(*) FROM sqlite_schema WHERE name = 'fleet'"
    if try Database.value(path, isCurrent) != "0" { return nil }
    let schema = try Database.rows(
      path,
      "PRAGMA user_version; SELECT name, failures FROM breaker; SELECT sql FROM sqlite_schema")
    return schema.map { $0.joined(separator: "|") }.joined(separator: "\n")
  }
}

/// A step that creates or changes a store's tables; a released one never changes.
struct Migration: Sendable {
  /// The name of its file in the folder `migrations`.
  let name: String
  let bytes: [UInt8]

  var sql: String { String(decoding: bytes, as: UTF8.self) }

  /// Distinguishes an edited migration from the one that a store was created with.
  var checksum: Int64 { Checksum.of(bytes) }

  /// Every migration, oldest first; the n-th creates version n.
  static let all: [Migration] = [
    Migration(name: "0001_create_breakers.sql", bytes: PackageResources._001_create_breakers_sql),
    Migration(name: "0002_share_counters.sql", bytes: PackageResources._002_share_counters_sql),
    Migration(name: "0003_index_eras.sql", bytes: PackageResources._003_index_eras_sql),
    Migration(name: "0004_follow_events.sql", bytes: PackageResources._004_follow_events_sql),
    Migration(name: "0005_note_use.sql", bytes: PackageResources._005_note_use_sql),
    Migration(name: "0006_tally_states.sql", bytes: PackageResources._006_tally_states_sql),
    Migration(name: "0007_agree_on_boots.sql", bytes: PackageResources._007_agree_on_boots_sql),
    Migration(name: "0008_keep_probes.sql", bytes: PackageResources._008_keep_probes_sql),
    Migration(name: "0009_join_fleets.sql", bytes: PackageResources._009_join_fleets_sql),
    Migration(name: "0010_name_users.sql", bytes: PackageResources._010_name_users_sql),
    Migration(name: "0011_hold_lifelines.sql", bytes: PackageResources._011_hold_lifelines_sql),
  ]
}

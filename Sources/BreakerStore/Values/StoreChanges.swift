/// What changed in a storage.
package struct StoreChanges: Sendable {
  /// Differs from the last time if revisions alone do not tell all that has happened since.
  ///
  /// The file may be another one or an older copy, or a program that knows nothing of revisions,
  /// such as the sqlite3 shell, has written to it.
  package var continuity: Int64
  package var breakers: [StoredBreaker]

  /// The highest revision that these changes bring their reader up to.
  package var revision: Int64

  /// The revision of the latest deletion, which no row is left to tell of.
  package var deletedRevision: Int64

  /// Whether the file is of another lineage or boot than this process has taken it for.
  var isOfOtherHeader = false

  package init(
    continuity: Int64, breakers: [StoredBreaker], revision: Int64, deletedRevision: Int64
  ) {
    self.continuity = continuity
    self.breakers = breakers
    self.revision = revision
    self.deletedRevision = deletedRevision
  }
}

/// Identifies a version of a breaker, which changes when the breaker is used or changed.
package struct StoredVersion: Sendable, Hashable {
  private let lineage: Int64
  private let id: Int64
  private let revision: Int64
  private let counted: Counted

  package init(of breaker: StoredBreaker) {
    lineage = breaker.lineage
    id = breaker.id
    revision = breaker.revision
    counted = breaker.takenIn
  }
}

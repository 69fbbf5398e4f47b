package import BreakerCore

/// Judges whether the owners of the leases and claims in a store have ended.
///
/// Only proof counts: a process that lives must never be taken for one that has ended. Without proof
/// the deadline of a lease or a claim decides.
package struct OwnerJudge: Sendable {
  private let store: String

  /// Judges the owners in the store at a path.
  package init(of store: String) { self.store = store }

  /// Whether an owner has ended for certain.
  ///
  /// Its number proves it in its own PID namespace, if `/proc` shows that one. Elsewhere its lifeline
  /// does: the owner held it before it was named anywhere.
  package func isGone(_ owner: ProcessIdentity) -> Bool {
    switch ProcessTable.fate(of: owner) {
    case .over: true
    case .running: false
    case .unknown: owner.lifeline.map { Lifelines.isReleased($0, of: store) } ?? false
    }
  }
}

/// The answer to a request.
package enum Decision<Grant> {
  case permitted(Grant)
  case rejected(Rejection)
}

extension Decision: Sendable where Grant: Sendable {}
extension Decision: Equatable where Grant: Equatable {}

/// The answer that a request can be given without changing anything.
package enum Assessment: Sendable, Hashable {
  case permitted(PermitGrant)
  case rejected(Rejection)

  /// The request would change the breaker, so it needs a transaction.
  case undecided
}

internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Keeping the lease of a probe that takes long.
extension Permit {
  /// Says that the call is still under way, so that a probe keeps its lease.
  ///
  /// A probe that has not reported by `probe-timeout` has failed, and its outcome is refused when it
  /// comes. One that takes longer, and knows that it gets on, renews its lease before that. What is
  /// left of a lease is never cut. A permit that is not a probe's has no lease to lose.
  ///
  /// - Parameter time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the call is still under way; if not, its outcome will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is as it was: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    do throws(StoreError) {
      return try breaker.engine.renew(ticket, of: breaker.cell, for: time)
    } catch {
      throw .store(error)
    }
  }
}

extension SharedStore {
  /// Says that the call of a token is still under way, so that a probe keeps its lease.
  ///
  /// See ``Permit/renew(for:)``.
  ///
  /// - Parameters:
  ///   - token: The token that the call was given.
  ///   - time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the call is still under way; if not, its outcome will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is as it was: try again.
  @discardableResult
  public func renew(
    _ token: PermitToken, for time: Duration? = nil
  ) throws(BreakerError) -> Bool {
    do throws(StoreError) {
      return try engine.renewInStore(token.ticket, of: engine.cell(token.name), for: time)
    } catch {
      throw .store(error)
    }
  }
}

extension Engine {
  /// Gives the probe of a ticket more time, and answers whether it is still under way.
  func renew(
    _ ticket: Ticket, of cell: Cell, for time: Duration?
  ) throws(StoreError) -> Bool {
    guard ticket.grant.kind == .probe else { return true }
    guard ticket.isOwn else { return false }
    switch ticket.source {
    case .none:
      return true
    case .local:
      let done = stepAlone(cell, orCreate: false) { $0.renew(ticket.grant, for: time) }
      return done?.answer ?? false
    case .store:
      if let trouble = trouble(of: cell) { throw trouble }
      do throws(StoreError) {
        return try renewInStore(ticket, of: cell, for: time)
      } catch {
        failed(error, of: cell)
        throw error
      }
    }
  }

  func renewInStore(
    _ ticket: Ticket, of cell: Cell, for time: Duration?
  ) throws(StoreError) -> Bool {
    guard ticket.grant.kind == .probe else { return true }
    let done = try step(cell, orCreate: false) { draft in
      draft.renew(ticket.grant(on: draft.breaker), for: time)
    }
    return done?.answer ?? false
  }
}

extension BreakerDraft {
  fileprivate mutating func renew(_ grant: PermitGrant, for time: Duration?) -> Bool {
    let policy = breaker.policy
    return apply { record, now in record.renewed(grant, for: time, at: now, policy: policy) }
  }
}

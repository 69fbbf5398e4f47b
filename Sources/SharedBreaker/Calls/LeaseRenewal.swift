internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Renewing the lease of a probe that takes long.
extension Permit {
  /// Renews the lease of a probe that is still making progress.
  ///
  /// A probe that has not reported by `probe-timeout` has failed, and its report is refused. A
  /// probe that takes longer renews its lease before that:
  ///
  /// ```swift
  /// let permit = try payments.acquire()
  /// for part in parts {
  ///   try upload(part)
  ///   guard try permit.renew() else { return }  // Its outcome no longer counts.
  /// }
  /// permit.succeed()
  /// ```
  ///
  /// Renewing never shortens a lease. An ordinary permit has no lease to lose: renewing it does
  /// nothing and returns true.
  ///
  /// - Parameter time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the probe still holds its lease; if not, its report will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is unchanged: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    try breaker.renew(ticket, for: time)
  }
}

extension Breaker {
  func renew(_ ticket: Ticket, for time: Duration?) throws(BreakerError) -> Bool {
    do throws(StoreError) {
      return try engine.renew(ticket, of: cell, for: time)
    } catch {
      throw .store(error)
    }
  }
}

extension SharedStore {
  /// Renews the lease of a probe that was given a token and is still making progress.
  ///
  /// It works like ``Permit/renew(for:)``.
  ///
  /// - Parameters:
  ///   - token: The token that the call was given.
  ///   - time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the probe still holds its lease; if not, its report will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is unchanged: try again.
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
  /// Gives the probe of a ticket more time, and returns whether it still holds its lease.
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
      return try waiting { () throws(StoreError) in
        if let trouble = trouble(of: cell) { throw trouble }
        do throws(StoreError) {
          return try renewInStore(ticket, of: cell, for: time)
        } catch {
          failed(error, of: cell)
          throw error
        }
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

internal import BreakerCore
internal import BreakerStore

/// One breaker, shared by its name with every process of the host.
///
/// A breaker is cheap to get and to keep, and may be used from any thread.
public final class Breaker: Sendable {
  let engine: Engine
  let cell: Cell
  let onStoreFailure: StoreFailureAction

  init(_ engine: Engine, cell: Cell, onStoreFailure: StoreFailureAction) {
    self.engine = engine
    self.cell = cell
    self.onStoreFailure = onStoreFailure
  }

  /// The name that the breaker is shared by.
  public var name: String { cell.name }

  /// The state that the breaker is in; asking changes nothing.
  public var state: BreakerState {
    current().record(at: engine.clock.moment, isGone: engine.options.processes.isGone).state
  }

  /// Whether this process shares the breaker; not while it cannot use the store, or the store has no
  /// room for the breaker.
  public var health: StoreHealth {
    let alone = engine.reasonAlone(cell).map { StoreHealth.unavailable($0) }
    return alone ?? engine.look { $0.availability.health }
  }

  /// All that is known of the breaker now; asking changes nothing.
  public func snapshot() -> BreakerSnapshot {
    var breaker = engine.storage.upToDate(current().breaker)
    breaker.record.totals += cell.pending.totals
    return engine.snapshot(of: breaker, at: engine.clock.moment)
  }

  /// What the store holds, or what goes on in its place.
  private func current() -> Known {
    engine.doRounds()
    if engine.trouble() == nil, !engine.isAlone(cell) {
      do throws(StoreError) {
        return try engine.known(cell)
      } catch {
        engine.failed(error)
      }
    }
    if let local = engine.local.find(name) { return Known(local, exists: true) }
    return engine.lastKnown(cell)
  }
}

/// Names.
extension Breaker {
  /// Refuses a text that cannot be a breaker's name.
  ///
  /// - Throws: `BreakerError.invalidName`, which says what is wrong with it.
  public static func validate(name: String) throws(BreakerError) {
    if let complaint = OutsideText.complaint(aboutName: name) { throw .invalidName(complaint) }
  }
}

/// What operators, and code, do to a breaker on purpose.
///
/// All of these are for every process, and seen by it on its next call; so they need the store, and
/// throw if they cannot have it.
extension Breaker {
  /// Closes the breaker with clean counters; calls that are under way no longer count.
  ///
  /// - Throws: `BreakerError.store` if the store cannot be used.
  public func reset(reason: String? = nil) throws(BreakerError) {
    try change { $0.apply { record, now in record.reset(reason: reason, at: now) } }
  }

  /// Opens the breaker now, as a failure would; one that is open stays so from now on.
  ///
  /// To trip an open breaker sets its open time again. It is no transition, so no observer hears of
  /// it, no other trip, and it makes the next open time no longer.
  ///
  /// - Parameters:
  ///   - duration: For how long, instead of as long as the policy says.
  ///   - reason: Why, for the history.
  /// - Throws: `BreakerError.store` if the store cannot be used.
  public func trip(for duration: Duration? = nil, reason: String? = nil) throws(BreakerError) {
    try change {
      let policy = $0.breaker.policy
      $0.apply { record, now in
        record.tripped(
          for: duration, reason: reason, at: now, policy: policy, jitter: .random(in: 0..<1))
      }
    }
  }

  /// Lays a mode on top of the state; `.automatic` takes it away.
  ///
  /// - Parameters:
  ///   - mode: What is to hold from now on.
  ///   - duration: For how long; until it is taken away if nil.
  ///   - reason: Why, for those who look.
  /// - Throws: `BreakerError.store` if the store cannot be used.
  public func force(
    _ mode: BreakerMode, for duration: Duration? = nil, reason: String? = nil
  ) throws(BreakerError) {
    let author = "\(engine.program) (pid \(engine.ownProcess().pid))"
    try change {
      $0.apply { record, now in
        record.modeSet(to: mode, for: duration, reason: reason, by: author, at: now)
      }
    }
  }

  /// Sets and takes away an operator's values, which win over the code's as long as they are set.
  ///
  /// - Parameters:
  ///   - values: Values in the words of the command line, such as `[.openFor: "1m"]`.
  ///   - keys: Words that are the code's again.
  /// - Throws: `BreakerError.invalidPolicy` if the policy that comes out of it cannot be used, and
  ///   `BreakerError.store` if the store cannot be.
  public func overridePolicy(
    set values: [PolicyKey: String] = [:], unset keys: Set<PolicyKey> = []
  ) throws(BreakerError) {
    let complaint: PolicyError?
    do throws(StoreError) {
      complaint = try engine.override(cell, set: values, unset: keys)
    } catch {
      throw .store(error)
    }
    if let complaint { throw .invalidPolicy(name: name, complaint) }
  }

  private func change(_ body: (inout BreakerDraft) -> Void) throws(BreakerError) {
    do throws(StoreError) {
      try engine.step(cell, body)
    } catch {
      throw .store(error)
    }
  }
}

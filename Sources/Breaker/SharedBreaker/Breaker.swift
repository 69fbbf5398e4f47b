@_spi(Relay) internal import BreakerCore
internal import BreakerStore

/// One breaker, which all processes of the host share by its name.
///
/// Get it from ``SharedStore/breaker(_:policy:onStoreFailure:)``, and run your calls through it:
///
/// ```swift
/// let receipt = try await payments.run { try await client.charge(order) }
/// ```
///
/// If the breaker rejects the call, `run` throws ``BreakerError/rejected(name:_:)`` without running
/// it. A breaker is cheap to keep, and you may use it from any thread.
public final class Breaker: Sendable {
  @usableFromInline let engine: Engine
  @usableFromInline let cell: Cell
  let onStoreFailure: StoreFailureAction

  /// How much each call takes of the limit, and its priority.
  let claim: CallClaim

  init(
    _ engine: Engine, cell: Cell, onStoreFailure: StoreFailureAction, claim: CallClaim = CallClaim()
  ) {
    self.engine = engine
    self.cell = cell
    self.onStoreFailure = onStoreFailure
    self.claim = claim
  }

  /// Returns the same breaker for calls that take several units of `max-concurrent`, or that can wait.
  ///
  /// ```swift
  /// let heavy = gpu.claiming(units: 2)
  /// try heavy.run { try render(scene) }
  /// ```
  ///
  /// A call that needs more units than `max-concurrent` permits takes all of them.
  ///
  /// - Parameters:
  ///   - units: How many units each call takes, where less than 1 is 1; if nil, as many as with this
  ///     breaker.
  ///   - inBackground: Whether its calls leave the units of `reserve` to all others, and wait behind
  ///     them; if nil, they do if those of this breaker do.
  /// - Returns: The breaker for such calls.
  public func claiming(units: Int? = nil, inBackground: Bool? = nil) -> Breaker {
    var claim = claim
    if let units { claim.units = max(1, units) }
    if let inBackground { claim.priority = inBackground ? .background : .ordinary }
    return Breaker(engine, cell: cell, onStoreFailure: onStoreFailure, claim: claim)
  }

  /// The name that processes share the breaker by.
  public var name: String { cell.name }

  /// The current state of the breaker; reading it changes nothing.
  ///
  /// An open breaker whose open time is over stays `open` until its next call makes it half-open.
  /// While the store cannot be used, this is the state of the breaker that stands in for it in this
  /// process, or else the state that was last known.
  public var state: BreakerState {
    current().record(at: engine.clock.moment, isGone: engine.storage.isGone).state
  }

  /// Whether this process shares the breaker with the others.
  ///
  /// It does not while it cannot use the store, or while the store has no room for the breaker.
  public var health: StoreHealth {
    let alone = engine.reasonAlone(cell).map { StoreHealth.unavailable($0) }
    return alone ?? engine.look { $0.availability.health }
  }

  /// Returns everything that is known of the breaker now; taking a snapshot changes nothing.
  ///
  /// While the store cannot be used, the snapshot shows the breaker that stands in for it in this
  /// process, or else what was last known. ``SharedStore/snapshot(of:)`` throws instead.
  public func snapshot() -> BreakerSnapshot {
    let shared = shared()
    let known = shared ?? lastKnown()
    var breaker = engine.storage.upToDate(known.breaker, at: engine.clock.instant)
    breaker.record.totals += cell.pending.totals
    let slots =
      shared == nil ? engine.slotsAlone(of: cell) : engine.slots(of: [breaker])[breaker.id]
    return BreakerSnapshot(
      of: breaker, at: engine.clock.moment, slots: slots, attempts: engine.recentAttempts(of: cell),
      isGone: engine.storage.isGone)
  }

  /// Whether a call that surrounds the current code, or has started this process, still has room here, so that a call
  /// from here needs no room of its own.
  @_spi(Command) public var isInsideOfCall: Bool {
    guard !CallNesting.isOutermost, shared() != nil else { return false }
    let surroundings = cell.withLimit { limit, _ in CallNesting.surroundings(on: limit.slots) }
    if case .nothing? = surroundings { return false }
    return surroundings != nil
  }

  /// The breaker as the store holds it, or else as this process alone goes on with it, or as last
  /// known.
  private func current() -> Known { shared() ?? lastKnown() }

  /// The breaker as the store holds it; nil if the store cannot be used.
  private func shared() -> Known? {
    engine.waiting { () -> Known? in
      engine.doRounds()
      guard engine.trouble() == nil, !engine.isAlone(cell) else { return nil }
      do throws(StoreError) {
        return try engine.known(cell)
      } catch {
        engine.failed(error)
        return nil
      }
    }
  }

  private func lastKnown() -> Known {
    engine.local.find(name).map { Known($0, exists: true) } ?? engine.lastKnown(cell)
  }
}

/// Checking names.
extension Breaker {
  /// Checks that a text can be the name of a breaker.
  ///
  /// A name has 1 to 255 bytes of UTF-8 and no control characters; case counts.
  ///
  /// - Throws: `BreakerError.invalidName`, which says what is wrong with the name.
  public static func validate(name: String) throws(BreakerError) {
    if let complaint = OutsideText.complaint(aboutName: name) { throw .invalidName(complaint) }
  }
}

/// Changing a breaker by hand.
///
/// Each of these methods changes the breaker for every process; the others see the change at their
/// next call. Each is one transaction: if the process dies in the middle, nothing has changed. They
/// need the store, so they throw if it cannot be used.
extension Breaker {
  /// Closes the breaker and clears its counters, in every state and for every process.
  ///
  /// Outcomes of calls that are under way only appear in the totals. A mode stays as it is.
  ///
  /// - Parameters:
  ///   - reason: Why, for the history.
  ///   - scope: Which hosts the command reaches.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for
  ///   longer than ``StoreOptions/lockTimeout``, and `BreakerError.noRelay` if other hosts cannot be
  ///   told. Then nothing has changed.
  public func reset(
    reason: String? = nil, scope: CommandScope = .host
  ) throws(BreakerError) {
    try change(.reset, reason, scope) { draft in
      draft.reset(reason: reason)
    }
  }

  /// Opens the breaker now, in every state and for every process, as a failure would.
  ///
  /// Tripping a breaker that is open already restarts its open time. That is an *extension* and not
  /// a transition: the observer is not notified, ``BreakerSnapshot/trips`` stays the same, and the
  /// next open time grows no further because of it.
  ///
  /// ```swift
  /// try payments.trip(for: .seconds(600), reason: "maintenance until 14:00")
  /// ```
  ///
  /// - Parameters:
  ///   - duration: How long the breaker stays open, up to 365 days; as long as the policy says if
  ///     nil.
  ///   - reason: Why, for the history, and for callers that are rejected while the breaker is open.
  ///   - scope: Which hosts the command reaches.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for
  ///   longer than ``StoreOptions/lockTimeout``, and `BreakerError.noRelay` if other hosts cannot be
  ///   told. Then nothing has changed.
  public func trip(
    for duration: Duration? = nil, reason: String? = nil, scope: CommandScope = .host
  ) throws(BreakerError) {
    try change(.trip(for: duration), reason, scope) { draft in
      let policy = draft.breaker.policy
      draft.apply { record, now in
        record.tripped(
          for: duration, reason: reason, at: now, policy: policy, jitter: Jitter.drawn())
      }
    }
  }

  /// Sets a mode for every process, which overrides what the state decides.
  ///
  /// `.automatic` ends the mode.
  ///
  /// ```swift
  /// try payments.force(.forcedOpen, for: .seconds(1_800), reason: "provider maintenance")
  /// ```
  ///
  /// While calls are forced open or forced closed, the state stays as it is, and outcomes only
  /// appear in the totals.
  ///
  /// - Parameters:
  ///   - mode: The mode that holds from now on.
  ///   - duration: How long the mode holds, up to 365 days; until it is set again if nil.
  ///   - reason: Why, for the history, snapshots and rejections.
  ///   - scope: Which hosts the command reaches.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for
  ///   longer than ``StoreOptions/lockTimeout``, and `BreakerError.noRelay` if other hosts cannot be
  ///   told. Then nothing has changed.
  public func force(
    _ mode: BreakerMode, for duration: Duration? = nil, reason: String? = nil,
    scope: CommandScope = .host
  ) throws(BreakerError) {
    let author = engine.author
    try change(.force(mode, for: duration), reason, scope) { draft in
      draft.apply { record, now in
        record.modeSet(to: mode, for: duration, reason: reason, by: author, at: now)
      }
    }
  }

  /// Sets and removes an operator's values, which win over the policy that code declares.
  ///
  /// ```swift
  /// try payments.overridePolicy(set: [.openFor: "5m"], unset: [.maxFailures])
  /// ```
  ///
  /// - Parameters:
  ///   - values: The values to set, in the words of the command line.
  ///   - keys: The keys whose values come from the code again.
  ///   - scope: Which hosts the command reaches. A host on which the resulting policy is not valid
  ///     keeps its policy.
  /// - Throws: `BreakerError.invalidPolicy` if the resulting policy is not valid,
  ///   `BreakerError.store` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``, and `BreakerError.noRelay` if other hosts cannot be told.
  ///   Then nothing has changed.
  public func overridePolicy(
    set values: [PolicyKey: String] = [:], unset keys: Set<PolicyKey> = [],
    scope: CommandScope = .host
  ) throws(BreakerError) {
    let command = try engine.given(.policy(set: values, unset: keys), nil, scope, to: name)
    let complaint: PolicyError?
    do throws(StoreError) {
      complaint = try engine.waiting { () throws(StoreError) in
        try applyOverride(set: values, unset: keys, as: command)
      }
    } catch {
      throw .store(error)
    }
    if let complaint { throw .invalidPolicy(name: name, complaint) }
  }

  private func change(
    _ action: FleetCommand.Action, _ reason: String?, _ scope: CommandScope,
    _ body: (inout BreakerDraft) -> Void
  ) throws(BreakerError) {
    let command = try engine.given(action, reason, scope, to: name)
    do throws(StoreError) {
      try engine.step(cell) { draft in
        body(&draft)
        draft.command = command
      }
    } catch {
      throw .store(error)
    }
  }

  /// Sets and removes an operator's values; returns an error if the resulting policy is not valid.
  private func applyOverride(
    set values: [PolicyKey: String], unset keys: Set<PolicyKey>, as command: GivenCommand?
  ) throws(StoreError) -> PolicyError? {
    // Checked before the transaction too, so that a mistake does not create a breaker.
    var words = try engine.known(cell).breaker.words
    do throws(PolicyError) {
      _ = try words.overridden(set: values, unset: keys, at: engine.clock.moment)
    } catch {
      return error
    }
    return try engine.step(cell) { draft -> PolicyError? in
      do throws(PolicyError) {
        try draft.agree { words, now throws(PolicyError) in
          try words.overridden(set: values, unset: keys, at: now)
        }
        draft.command = command
        if command != nil, !draft.events.contains(where: { $0.change.kind == .policy }) {
          // The entry tells the relay about the command, even if it changes nothing on this host.
          let words = draft.breaker.words.operator ?? ""
          draft.note(.policy(from: words, to: words), reason: "set by an operator")
        }
        return nil
      } catch {
        return error
      }
    }.answer
  }
}

extension Engine {
  /// A command that the relay is to tell the other hosts; nil if it is for this host alone.
  func given(
    _ action: FleetCommand.Action, _ reason: String?, _ scope: CommandScope, to name: String
  ) throws(BreakerError) -> GivenCommand? {
    guard scope == .fleet else { return nil }
    do throws(StoreError) {
      let isHeld = try storage.isRelayHeld()
      let fleet = try storage.fleet()
      if isHeld, fleet != nil { return GivenCommand(action, reason: reason, author: author) }
    } catch {
      throw .store(error)
    }
    throw .noRelay(name: name)
  }

  /// This process and its user, as modes and commands name them.
  var author: String {
    HistoryAuthor(pid: ownProcess().pid, program: program, mandate: mandate).words
  }
}

/// Which hosts a command to a breaker reaches.
///
/// A later version may add cases, so end a `switch` over a scope with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum CommandScope: Sendable, Hashable {
  /// This host alone.
  case host

  /// Every host of the fleet.
  ///
  /// The breaker of this host changes at once. The relay of this host, `cbrelay`, tells the other
  /// hosts, or does so as soon as it reaches them. Each host does what the command says exactly
  /// once, and of two commands about the same thing every host follows the later one.
  case fleet
}

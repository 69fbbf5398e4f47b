@_spi(Relay) internal import BreakerCore
internal import BreakerStore
internal import Glibc

/// Getting and deleting breakers.
extension SharedStore {
  /// Returns the breaker with a name, and declares its policy if you give one.
  ///
  /// ```swift
  /// let policy = BreakerPolicy(maxFailures: 3, openFor: .seconds(60))
  /// let payments = try store.breaker("payments", policy: policy)
  /// ```
  ///
  /// A policy is declared for all processes. If they declare different ones, the policy declared
  /// last is in force, and the values that an operator has set win over it. Declaring the same
  /// policy again writes nothing. A declaration that cannot be written now is written with the
  /// next write to the breaker.
  ///
  /// Declaring a policy opens the store, creates the breaker if there is none, and may wait as long
  /// as ``StoreOptions/lockTimeout`` for another process. Without a policy nothing is opened; the
  /// first call through the breaker creates it.
  ///
  /// - Parameters:
  ///   - name: The name that all processes use for the breaker.
  ///   - policy: The policy to declare; if nil, the declared one stays in force, or the default.
  ///   - onStoreFailure: The action of calls through this object while the store cannot be used; if
  ///     nil, the one in ``StoreOptions/onStoreFailure``.
  /// - Returns: The breaker. Objects with the same name share everything but `onStoreFailure`.
  /// - Throws: `BreakerError` if the name or the policy is not valid; never because of the store.
  public func breaker(
    _ name: String, policy: BreakerPolicy? = nil, onStoreFailure: StoreFailureAction? = nil
  ) throws(BreakerError) -> Breaker {
    try breaker(name, policy: policy, onStoreFailure: onStoreFailure, createsStore: true)
  }

  /// Returns the breaker with a name, and declares its policy.
  ///
  /// If there is no file and `createsStore` is false, the first call declares it. So a process that only declares, such as the master of a prefork server, creates no file that its
  /// workers might not be allowed to use.
  package func breaker(
    _ name: String, policy: BreakerPolicy?, onStoreFailure: StoreFailureAction?, createsStore: Bool
  ) throws(BreakerError) -> Breaker {
    try Breaker.validate(name: name)
    let breaker = Breaker(
      engine, cell: engine.cell(name),
      onStoreFailure: onStoreFailure ?? engine.options.onStoreFailure)
    if let policy {
      do throws(PolicyError) {
        try policy.validate()
      } catch {
        throw .invalidPolicy(name: name, error)
      }
      if createsStore || !isMissing {
        engine.declare(policy, for: breaker.cell)
      } else {
        // The next write to the breaker, which the first call makes, includes the declaration.
        engine.update { _ = $0.declare(policy, for: breaker.cell) }
      }
    }
    return breaker
  }

  /// Whether there is no file at the path.
  private var isMissing: Bool { unsafe access(path, F_OK) != 0 && errno == ENOENT }

  /// Returns the breaker with a name, or nil if the store has none.
  ///
  /// - Throws: `BreakerError` if the name is not valid or the store cannot be used.
  public func existingBreaker(_ name: String) throws(BreakerError) -> Breaker? {
    try Breaker.validate(name: name)
    engine.doRounds()
    do throws(StoreError) {
      guard try engine.storage.find(name) != nil else { return nil }
    } catch {
      throw .store(error)
    }
    return Breaker(
      engine, cell: engine.cell(name), onStoreFailure: engine.options.onStoreFailure)
  }

  /// Resets several breakers, in far less time than one after the other takes.
  ///
  /// Breakers of which there are none are created. A hundred are reset in one transaction, all of them
  /// or none, with a pause of 5 ms after it, so that other processes need not wait for all of them.
  ///
  /// - Parameters:
  ///   - names: The names of the breakers.
  ///   - reason: Why, for the history.
  ///   - scope: Which hosts the command reaches.
  /// - Throws: `BreakerError.store` if the store cannot be used, or another process locks it for
  ///   longer than ``StoreOptions/lockTimeout``, and another `BreakerError` if a name is not valid or
  ///   other hosts cannot be told. Earlier transactions are not taken back.
  public func reset(
    _ names: [String], reason: String? = nil, scope: CommandScope = .host
  ) throws(BreakerError) {
    for name in names { try Breaker.validate(name: name) }
    for start in stride(from: 0, to: names.count, by: Self.resetsAtOnce) {
      let part = names[start..<min(start + Self.resetsAtOnce, names.count)]
      let command = try engine.given(.reset, reason, scope, to: names[start])
      let steps = part.map { name in
        NamedStep(name) { draft in
          draft.reset(reason: reason)
          draft.command = command
        }
      }
      // A process that waits for the store looks again within 2 ms.
      if start > 0 { usleep(5_000) }
      do throws(StoreError) {
        _ = try engine.step(together: steps, mustBeNew: false)
      } catch {
        throw .store(error)
      }
    }
  }

  /// How many breakers one transaction resets; other processes that write wait meanwhile.
  private static let resetsAtOnce = 100

  /// Deletes a breaker and everything that is known of it, except its history.
  ///
  /// A process that still uses the breaker creates a new one with its next call. Outcomes of calls
  /// that the old one permitted change nothing in the new one but its totals.
  ///
  /// - Returns: Whether there was a breaker to delete.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func delete(_ name: String) throws(StoreError) -> Bool {
    try engine.delete(name, ifStill: nil)
  }

  /// Deletes a breaker unless it has been used or changed since you took a snapshot of it.
  ///
  /// - Returns: Whether it was deleted; false if it was used, changed, replaced or deleted.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func delete(ifStillAs snapshot: BreakerSnapshot) throws(StoreError) -> Bool {
    try engine.delete(snapshot.name, ifStill: snapshot.version)
  }

  /// Records that a breaker has been used by now.
  ///
  /// Successes are counted without a time. To learn later whether a breaker has been used since a
  /// certain moment, call this at that moment and look at ``BreakerSnapshot/lastUsedAt`` later.
  ///
  /// - Returns: Whether there is such a breaker.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func noteUse(of name: String) throws(StoreError) -> Bool {
    // A cell is kept forever, so there must be none for a name without a breaker.
    guard try engine.storage.find(name) != nil else { return false }
    let noted = try engine.step(engine.cell(name), orCreate: false) { draft in
      draft.breaker.usedAtMilliseconds = draft.now.wallMilliseconds
    }
    return noted != nil
  }
}

internal import BreakerCore
internal import BreakerStore

extension Engine {
  /// Declares the policy that code gives a breaker.
  ///
  /// If the store cannot be written now, the next write to the breaker includes the declaration.
  func declare(_ policy: BreakerPolicy, for cell: Cell) {
    let (words, forgettings) = update { ($0.declare(policy, for: cell), $0.knowledge.forgettings) }
    waiting {
      guard trouble(of: cell) == nil else { return }
      do throws(StoreError) {
        let known = try known(cell)
        guard !known.exists || known.breaker.words.code != words else {
          update {
            $0.hasDeclared(words, for: cell, at: known.breaker.revision, after: forgettings)
          }
          return
        }
        try step(cell) { _ in }
      } catch {
        failed(error, of: cell)
      }
    }
  }

  /// Declares a policy with the next write to the breaker, which the next call makes.
  func declareLater(_ policy: BreakerPolicy, for cell: Cell) {
    update { _ = $0.declare(policy, for: cell) }
  }

  /// Sets and removes an operator's values; returns an error if the resulting policy is not valid.
  func override(
    _ cell: Cell, set values: [PolicyKey: String], unset keys: Set<PolicyKey>,
    as command: GivenCommand?
  ) throws(StoreError) -> PolicyError? {
    // Checked before the transaction too, so that a mistake does not create a breaker.
    var words = try known(cell).breaker.words
    do throws(PolicyError) {
      _ = try words.overridden(set: values, unset: keys, at: clock.moment)
    } catch {
      return error
    }
    return try step(cell) { draft -> PolicyError? in
      do throws(PolicyError) {
        try draft.agree { words, now throws(PolicyError) in
          try words.overridden(set: values, unset: keys, at: now)
        }
        draft.command = command
        if command != nil, !draft.events.contains(where: { $0.change.kind == .policy }) {
          // A command to the fleet is told because of its entry, also if it changes nothing here.
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

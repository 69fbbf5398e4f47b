internal import BreakerCore
internal import BreakerStore

extension Engine {
  /// Declares the policy that code gives a breaker.
  ///
  /// If the store cannot be written now, the next write to the breaker includes the declaration.
  func declare(_ policy: BreakerPolicy, for cell: Cell) {
    let (words, forgettings) = update { ($0.declare(policy, for: cell), $0.knowledge.forgettings) }
    guard trouble(of: cell) == nil else { return }
    do throws(StoreError) {
      let known = try known(cell)
      guard !known.exists || known.breaker.codeWords != words else {
        update { $0.hasDeclared(words, for: cell, at: known.breaker.revision, after: forgettings) }
        return
      }
      try step(cell) { _ in }
    } catch {
      failed(error, of: cell)
    }
  }

  /// Sets and removes an operator's values; returns an error if the resulting policy is not valid.
  func override(
    _ cell: Cell, set values: [PolicyKey: String], unset keys: Set<PolicyKey>
  ) throws(StoreError) -> PolicyError? {
    // Checked before the transaction too, so that a mistake does not create a breaker.
    if case .failure(let error) = Self.overridden(try known(cell).breaker, values, keys) {
      return error
    }
    return try step(cell) { draft in
      switch Self.overridden(draft.breaker, values, keys) {
      case .failure(let error):
        return error
      case .success(let words):
        let before = draft.breaker.operatorWords
        guard before != words else { return nil }
        draft.breaker.operatorWords = words
        draft.note(.policy(from: before ?? "", to: words ?? ""), reason: "set by an operator")
        return nil
      }
    }.answer
  }

  private static func overridden(
    _ breaker: StoredBreaker, _ values: [PolicyKey: String], _ keys: Set<PolicyKey>
  ) -> Result<String?, PolicyError> {
    do throws(PolicyError) {
      let codes = try PolicyWords(text: breaker.codeWords ?? "").applied(to: BreakerPolicy())
      var words = try PolicyWords(text: breaker.operatorWords ?? "")
      for key in keys { words.values[key] = nil }
      words.values.merge(values) { _, new in new }
      _ = try words.applied(to: codes)
      return .success(words.values.isEmpty ? nil : words.description)
    } catch {
      return .failure(error)
    }
  }
}

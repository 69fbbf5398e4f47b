internal import BreakerCore
internal import BreakerStore

extension Engine {
  /// Declares the policy that code gives a breaker.
  ///
  /// If the store cannot be written now, the next write to the breaker takes it along.
  func declare(_ policy: BreakerPolicy, for cell: Cell) {
    let words = words(of: policy)
    cellsLock.withLock {
      unsafe cell.declared = words
      unsafe cell.declaredAt = nil
      unsafe cell.isOverruled = false
      noteToWrite(cell)
      // What nobody has written yet is as this process says.
      if unsafe cell.known?.exists == false { cell.forget() }
    }
    guard trouble(of: cell) == nil else { return }
    do throws(StoreError) {
      let known = try known(cell)
      guard !known.exists || known.breaker.codeWords != words else {
        hasDeclared(words, for: cell, at: known.breaker.revision)
        return
      }
      _ = try step(cell) { _, _ in }
    } catch {
      failed(error, of: cell)
    }
  }

  /// The words of a policy, which all breakers that are declared with it have in common.
  private func words(of policy: BreakerPolicy) -> String {
    let latest = cellsLock.withLock { unsafe latestDeclared }
    if let latest, latest.policy == policy { return latest.words }
    let words = PolicyWords(of: policy).description
    cellsLock.withLock { unsafe latestDeclared = (policy, words) }
    return words
  }

  /// The store has had what was declared here since a revision, unless that has changed meanwhile.
  func hasDeclared(_ words: String?, for cell: Cell, at revision: Int64) {
    let event = cellsLock.withLock { () -> StoreEvent? in
      guard unsafe cell.declared == words, cell.isUndeclared else { return nil }
      unsafe cell.declaredAt = revision
      // Another thread may have read a later declaration before this one got here.
      return overruling(of: cell)
    }
    if let event { tell(event) }
  }

  /// What to tell if a declaration that came after the one made here has taken its place.
  ///
  /// Words that were in force before that are not news: this process has replaced them, or is about
  /// to. Under the lock for cells.
  func overruling(of cell: Cell) -> StoreEvent? {
    guard let declared = unsafe cell.declared, let since = unsafe cell.declaredAt,
      unsafe cell.revision >= since, let inForce = cell.wordsInForce
    else { return nil }
    let wasOverruled = unsafe cell.isOverruled
    unsafe cell.isOverruled = declared != inForce
    guard declared != inForce, !wasOverruled else { return nil }
    return .policyDiffers(name: cell.name, declaredHere: declared, inForce: inForce)
  }

  /// Sets and takes away an operator's values, if the policy that comes out of it can be used.
  func override(
    _ cell: Cell, set values: [PolicyKey: String], unset keys: Set<PolicyKey>
  ) throws(StoreError) -> PolicyError? {
    // Tried first on what is known, so that a mistake makes no breaker.
    if case .failure(let error) = Self.overridden(try known(cell).breaker, values, keys) {
      return error
    }
    return try step(cell) { draft, _ in
      switch Self.overridden(draft.breaker, values, keys) {
      case .failure(let error):
        return error
      case .success(let words):
        let before = draft.breaker.operatorWords
        guard before != words else { return nil }
        draft.breaker.operatorWords = words
        draft.note(.policy, from: before ?? "", to: words ?? "", reason: "set by an operator")
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

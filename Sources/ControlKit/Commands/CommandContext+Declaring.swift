import SharedBreaker

extension CommandContext {
  /// The breaker that a command names, with the policy that its options declare, if any.
  func declaredBreaker(
    _ parsed: ParsedCommand, onStoreFailure: StoreFailureAction
  ) throws(ControlError) -> Breaker {
    let name = parsed.text("NAME") ?? ""
    let policy = try BreakerPolicy.given(by: parsed)
    let known = try act { () throws(BreakerError) in
      try store.breaker(name, onStoreFailure: onStoreFailure)
    }
    guard let policy else { return known }
    // If the store cannot be used, this finds out, and what follows does not wait for it again.
    _ = known.snapshot()
    let before = declarationInForce(of: name)
    let breaker = try act { () throws(BreakerError) in
      try store.breaker(name, policy: policy, onStoreFailure: onStoreFailure)
    }
    if let before, let now = declarationInForce(of: name), now.text != before.text {
      let difference = PolicyDifference(from: before.text, to: now.text).text()
      note(
        "\(VisibleText.name(name)): these options change the policy that "
          + "\(VisibleText.bare(before.program)) declared before: \(VisibleText.bare(difference)): "
          + "use 'cbctl policy' to settle it for every caller")
    }
    return breaker
  }

  /// The declaration in force; nil also if the store fails, which the command itself then reports.
  private func declarationInForce(of name: String) -> PolicyDeclaration? {
    if case .unavailable = store.health { return nil }
    do throws(StoreError) {
      return try store.declarations(of: name).first { $0.isInForce }
    } catch {
      return nil
    }
  }
}

extension PolicyDeclaration {
  /// The policy, for people.
  var words: String { text.isEmpty ? "the defaults" : VisibleText.bare(text) }
}

import SharedBreaker

extension CommandContext {
  /// The breaker that a command names, with the policy that its options declare, if any.
  func declaredBreaker(
    _ parsed: ParsedCommand, onStoreFailure: StoreFailureAction
  ) throws(ControlError) -> Breaker {
    let name = parsed.text("NAME") ?? ""
    let policy = try BreakerPolicy.given(by: parsed)
    let before = policy == nil ? nil : declarationInForce(of: name)
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

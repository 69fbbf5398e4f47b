/// What is to be done to the breaker of a name.
package struct NamedStep {
  package var name: String
  package var body: (inout BreakerDraft) -> Void

  package init(_ name: String, _ body: @escaping (inout BreakerDraft) -> Void) {
    self.name = name
    self.body = body
  }
}

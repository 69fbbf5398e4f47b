@testable import BreakerCore
@testable import SharedBreaker

/// Checks that an accepted policy, as words or JSON, can be used and means the same when written.
enum PolicyTarget {
  static func run(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    do throws(PolicyError) {
      let policy = try BreakerPolicy(environment: "POLICY", over: BreakerPolicy()) { _ in text }
      try hold(policy)
    } catch {
      expectReadable(error.description)
      expect(error.description.utf8.count < 4_096, "a message that drowns what it says")
    }
  }

  private static func hold(_ policy: BreakerPolicy) throws(PolicyError) {
    do throws(PolicyError) {
      try policy.validate()
      let json = policy.json
      let again = try BreakerPolicy(json: json)
      expect(again.json == json, "\(json) reads as \(again.json)")
      let words = PolicyWords(of: policy).description
      let spoken = try BreakerPolicy(words: words)
      expect(spoken == policy, "\(words) reads as \(spoken)")
      let laid = try BreakerPolicy(json: json, over: policy)
      expect(laid.json == json, "over itself \(json) reads as \(laid.json)")
    } catch {
      fatalError("an accepted policy is refused: \(error)")
    }
  }
}

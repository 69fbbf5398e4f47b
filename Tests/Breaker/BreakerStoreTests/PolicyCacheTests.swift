import BreakerCore
import Testing

@testable import BreakerStore

/// Policies that are cached by their words.
@Suite struct PolicyCacheTests {
  @Test func `a cached policy is the one that its words describe, whatever their source`() {
    let cache = PolicyCache()
    for _ in 0..<2 {
      #expect(cache.policy(of: .init()).policy == BreakerPolicy())
      #expect(
        cache.policy(of: .init(code: "max-failures=3")).policy == BreakerPolicy(maxFailures: 3))
      #expect(
        cache.policy(of: .init(code: "max-failures=3", operator: "probes=2")).policy
          == BreakerPolicy(maxFailures: 3, probes: 2))
      #expect(cache.policy(of: .init(operator: "probes=2")).policy == BreakerPolicy(probes: 2))
      #expect(cache.policy(of: .init(code: "no=policy")).policy == BreakerPolicy())
    }
    #expect(cache.count == 5)
  }

  @Test func `the policy cache never grows beyond its limit`() {
    let cache = PolicyCache()
    for number in 1...(3 * PolicyCache.most) {
      let policy = cache.policy(of: .init(code: "max-failures=\(number)")).policy
      #expect(policy.maxFailures == number)
      #expect(cache.count <= PolicyCache.most)
    }
  }
}

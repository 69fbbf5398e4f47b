/// How many retries a resource is sent: a share of the first attempts, and a few in any case.
package struct RetryBudget: Sendable, Hashable {
  /// The share of the first attempts that retries may make up.
  package let share: BreakerPolicy.Rate

  /// How many retries may be sent in each second whatever the share is, so that a call which comes once a minute can be
  /// tried again.
  package static let leastInSecond: Int64 = 10

  package init(_ share: BreakerPolicy.Rate) { self.share = share }

  /// Whether another retry may be sent after some calls.
  package func permitsRetry(after calls: RecentAttempts) -> Bool {
    calls.retriesInSecond < Self.leastInSecond
      || calls.retries < share.largestPart(of: calls.firsts)
  }
}

/// The attempts of all calls in the last ten seconds, the present one included.
package struct RecentAttempts: Sendable, Hashable {
  /// How many first attempts have ended.
  package var firsts: Int64 = 0

  /// How many retries were sent.
  package var retries: Int64 = 0

  /// How many of the retries were sent in the present second.
  package var retriesInSecond: Int64 = 0

  package init() {}
}

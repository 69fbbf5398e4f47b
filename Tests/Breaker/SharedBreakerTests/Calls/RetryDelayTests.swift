import SharedBreaker
import Testing

@Suite struct RetryDelayTests {
  private func waits(
    _ backoff: RetryPolicy.Backoff, longest: Duration = .seconds(60),
    jitter: BreakerPolicy.Rate = 0.0, random: Double = 0.5
  ) -> [Duration] {
    let retry = RetryPolicy(attempts: 5, backoff: backoff, longest: longest, jitter: jitter)
    return (1...4).map { retry.delay(after: $0, random: random) }
  }

  @Test func `a retry delay is fixed, grows by a factor or grows by powers`() {
    #expect(waits(.fixed(.seconds(2))) == [2, 2, 2, 2].map { .seconds($0) })
    #expect(
      waits(.exponential(.milliseconds(100), factor: 3))
        == [100, 300, 900, 2_700].map { .milliseconds($0) })
    #expect(waits(.powers(of: 2)) == [2, 4, 8, 16].map { .seconds($0) })
    #expect(waits(.powers(of: 1)) == [1, 1, 1, 1].map { .seconds($0) })
    #expect(
      waits(.powers(of: 0.5)) == [500_000, 250_000, 125_000, 62_500].map { .microseconds($0) })
  }

  @Test func `a retry delay never exceeds the longest, whatever the growth and jitter`() {
    let longest = Duration.seconds(5)
    #expect(waits(.powers(of: 2), longest: longest) == [2, 4, 5, 5].map { .seconds($0) })
    let varied = waits(.powers(of: 2), longest: longest, jitter: 1.0, random: 0.999_999)
    #expect(varied.allSatisfy { $0 <= longest })
    for backoff in [
      RetryPolicy.Backoff.powers(of: 1e300), .exponential(.seconds(1), factor: .infinity),
      .exponential(.seconds(Int64.max), factor: 1e308),
    ] {
      let retry = RetryPolicy(attempts: .max, backoff: backoff, longest: longest)
      #expect(retry.delay(after: .max, random: 0) == longest)
    }
  }

  @Test func `a retry delay is zero if it would be negative or its growth is invalid`() {
    for backoff in [
      RetryPolicy.Backoff.fixed(.seconds(-1)), .powers(of: -3), .powers(of: .nan),
      .exponential(.zero, factor: .infinity),
    ] {
      let retry = RetryPolicy(attempts: .max, backoff: backoff)
      #expect(retry.delay(after: 3, random: 0) == .zero)
    }
  }

  @Test(arguments: [(0.0, 8.0), (0.25, 9.0), (0.5, 10.0), (0.75, 11.0)])
  func `jitter makes a retry delay shorter or longer`(random: Double, seconds: Double) {
    let waits = waits(.fixed(.seconds(10)), jitter: 0.2, random: random)
    #expect(waits.allSatisfy { $0 == .seconds(seconds) })
  }

  @Test func `jitter spreads the longest waits too`() {
    let retries = [
      RetryPolicy.fixed(attempts: 5, delay: .seconds(60), jitter: 0.2),
      .exponential(attempts: 99, delay: .seconds(1), longest: .seconds(60), jitter: 0.2),
    ]
    for retry in retries {
      let waits = [0, 0.25, 0.5, 0.75, 0.999_999].map { retry.delay(after: 50, random: $0) }
      #expect(Set(waits).count == 5, "\(waits)")
    }
    #expect(retries[0].delay(after: 1, random: 0.5) == .seconds(60))
    #expect(retries[1].delay(after: 50, random: 1) == .seconds(60))
  }

  @Test func `a retry policy with invalid numbers ends the process`() async {
    await #expect(processExitsWith: .failure) {
      _ = RetryPolicy.fixed(attempts: 0, delay: .seconds(1))
    }
    await #expect(processExitsWith: .failure) {
      _ = RetryPolicy.exponential(attempts: 2, delay: .seconds(1), longest: .seconds(-1))
    }
    await #expect(processExitsWith: .failure) {
      _ = RetryPolicy.fixed(attempts: 2, delay: .seconds(1), jitter: 1.5)
    }
  }
}

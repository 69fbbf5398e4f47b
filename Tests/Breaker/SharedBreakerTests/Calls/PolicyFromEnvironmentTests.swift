import Glibc
import SharedBreaker
import Testing

@Suite struct PolicyFromEnvironmentTests {
  private let variables = [
    "WORDS": "max-failures=7 open-for=3s", "JSON": "\n{\"max-failures\":7,\"open-for\":\"3s\"}",
    "EMPTY": "", "WRONG": "{\"jitter\":1}",
  ]

  private func policy(_ variable: String, over base: BreakerPolicy) throws -> BreakerPolicy {
    try BreakerPolicy(environment: variable, over: base) { variables[$0] }
  }

  @Test(arguments: ["WORDS", "JSON"])
  func `a variable overrides a policy with words or with JSON`(variable: String) throws {
    let policy = try policy(variable, over: .localService)
    #expect(policy.maxFailures == 7)
    #expect(policy.openFor == .seconds(3))
    #expect(policy.probeTimeout == BreakerPolicy.localService.probeTimeout)
  }

  @Test(arguments: [
    "max-failures=3 open-for=1m", #"{"max-failures": 3, "open-for": "1m", "open-max": null}"#,
    "failure-rate=none window=none min-calls=none open-for=1m max-failures=3",
  ])
  func `a variable may unset what the base policy sets`(text: String) throws {
    let policy = try BreakerPolicy(environment: "ANY", over: .http) { _ in text }
    #expect(policy.maxFailures == 3)
    #expect(policy.openFor == .seconds(60))
  }

  @Test(arguments: ["UNSET", "EMPTY"])
  func `an unset or empty variable gives the base policy`(variable: String) throws {
    #expect(try policy(variable, over: .device) == .device)
  }

  @Test func `a mistake in a variable is reported with the name of the variable`() throws {
    let error = #expect(throws: PolicyError.self) { try policy("WRONG", over: .device) }
    #expect(
      error?.description == #"WRONG: jitter takes a rate in quotes, such as "50%""#)
    #expect(error?.key == "jitter")
  }

  @Test func `a policy is read from the environment of its own process`() async {
    // In a process of its own, because the environment must not change while other tests read it.
    await #expect(processExitsWith: .success) {
      unsafe setenv("PAYMENTS_BREAKER", "max-failures=7", 1)
      let policy = try BreakerPolicy(environment: "PAYMENTS_BREAKER")
      exit(policy.maxFailures == 7 ? 0 : 1)
    }
  }
}

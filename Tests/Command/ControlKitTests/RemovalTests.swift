import BreakerStore
import SharedBreaker
import TestSupport
import Testing

private struct Down: Error {}

/// Commands that delete breakers, and the question before all of them are changed.
struct RemovalTests {
  private let day: Int64 = 86_400_000

  /// Creates a breaker without a reason to stay, and one with each reason.
  private func fill(_ bench: CommandBench) {
    for name in ["free", "open", "forced", "set"] { _ = bench("run", name, "--", "true") }
    _ = bench("trip", "open", "--for", "300d")
    _ = bench("force", "forced", "forced_closed")
    _ = bench("policy", "set", "--set", "probes=2")
  }

  private func names(_ bench: CommandBench) -> [Substring] {
    bench("status").output.split(separator: "\n").dropFirst()
      .compactMap { $0.split(separator: " ").first }.sorted()
  }

  @Test(
    arguments: [
      ("open", "it is open"), ("forced", "its mode is forced_closed, set by cbctl (pid "),
      ("set", "an operator has set policy values"),
    ])
  func `a breaker that has a reason to stay is deleted only by force`(name: String, reason: String)
  {
    let bench = CommandBench()
    fill(bench)
    let answer = bench("delete", "free", name)
    #expect(answer.code == 1)
    #expect(answer.output.isEmpty)
    #expect(answer.errors.hasPrefix("cbctl: \(name): not deleted: \(reason)"))
    #expect(names(bench).count == 4)
    #expect(bench("delete", "free", name, "--force").output == "free: deleted\n\(name): deleted\n")
    #expect(names(bench).count == 2)
  }

  @Test func `a dry run deletes nothing`() {
    let bench = CommandBench()
    fill(bench)
    #expect(bench("delete", "free", "--dry-run").output == "free: would be deleted\n")
    let all = bench("delete", "--all", "--dry-run")
    #expect(all.output == "free: would be deleted\n")
    #expect(all.errors.split(separator: "\n").count == 3)
    #expect(names(bench).count == 4)
  }

  @Test func `delete --all deletes all breakers except those with a reason to stay`() {
    let bench = CommandBench()
    fill(bench)
    let answer = bench("delete", "--all", "--yes", "--json")
    #expect(answer.code == 0)
    #expect(
      answer.output.hasPrefix(
        #"{"deleted":["free"],"kept":[{"name":"forced","reason":"its mode is forced_closed, set "#))
    #expect(answer.output.hasSuffix("],\"dry_run\":false}\n"))
    #expect(names(bench) == ["forced", "open", "set"])
  }

  @Test(arguments: [["reset", "--all"], ["delete", "--all", "--force"]])
  func `a change of all breakers needs a confirmation, or --yes in a script`(words: [String]) {
    let bench = CommandBench()
    fill(bench)
    let before = bench("status", "--json").output
    let script = bench.run(words)
    #expect(script.code == 64)
    #expect(script.errors.contains("there is no terminal to confirm it at: add --yes"))
    let asked = Guarded("")
    let refused = bench.run(words) { question in
      asked.withLock { $0 = question }
      return false
    }
    #expect(refused.code == 1)
    #expect(refused.output.isEmpty)
    #expect(asked.withLock { $0 } == "\(words[0]) 4 breakers? [y/N] ")
    #expect(bench("status", "--json").output == before)
    #expect(bench.run(words) { _ in true }.code == 0)
    #expect(bench("status", "--json").output != before)
    #expect(bench.run(words + ["--yes"]).code == 0)
  }

  @Test(arguments: [[], ["--force"]])
  func `a breaker that is created again meanwhile is deleted only by force`(
    options: [String]
  ) {
    let bench = CommandBench()
    for name in ["a", "b", "c"] { _ = bench("run", name, "--", "true") }
    let answer = bench.run(["delete", "--all"] + options) { _ in
      _ = bench("delete", "a", "b")
      _ = bench("run", "b", "--", "false")
      return true
    }
    #expect(answer.code == 0)
    let isForced = !options.isEmpty
    #expect(
      answer.output
        == (isForced ? "a: deleted\nb: deleted\nc: deleted\n" : "a: deleted\nc: deleted\n"))
    #expect(answer.errors == (isForced ? "" : "cbctl: b: kept: it was used meanwhile\n"))
  }

  @Test func `an idle breaker is pruned unless it has a reason to stay`() {
    let bench = CommandBench()
    fill(bench)
    // Successes record no time, so prune notices only from now on whether there are more.
    #expect(bench("prune", "--idle", "1d").output.isEmpty)
    bench.advance(by: day - 1)
    #expect(bench("prune", "--idle", "1d").output.isEmpty)
    bench.advance(by: 1)
    #expect(bench("prune", "--idle", "1d", "--dry-run").output == "free: would be pruned\n")
    #expect(names(bench).count == 4)
    #expect(bench("prune", "--idle", "1d").output == "free: pruned\n")
    #expect(names(bench) == ["forced", "open", "set"])
    #expect(bench("history", "free").output.contains("deleted"))
  }

  @Test func `a breaker through which calls succeed is not pruned`() throws {
    let bench = CommandBench()
    let store = SharedStore(path: bench.path, options: bench.options)
    let breaker = try store.breaker("busy", policy: BreakerPolicy(maxFailures: 3))
    for _ in 0..<4 {
      try breaker.run {}
      let answer = bench("prune", "--idle", "1d")
      #expect(answer.output.isEmpty)
      #expect(answer.errors == "cbctl: busy: kept: calls have succeeded since the last look\n")
      bench.advance(by: 40 * day)
    }
    // The last prune saw the last success, so the breaker has been idle since.
    #expect(bench("prune", "--idle", "40d").output == "busy: pruned\n")
    // A program that still uses the breaker goes on, under the policy of its code.
    try breaker.run {}
    #expect(throws: BreakerError.self) {
      for _ in 0..<4 { try? breaker.run { throw Down() } }
      try breaker.run {}
    }
    #expect(names(bench) == ["busy"])
  }

  @Test func `a breaker that is held, or has calls that count, is neither deleted nor pruned`()
    throws
  {
    let bench = CommandBench()
    _ = bench("hold", "held", "--for", "6h")
    let store = SharedStore(path: bench.path, options: bench.options)
    let limited = try store.breaker("limited", policy: BreakerPolicy(maxConcurrent: 1))
    let permit = try limited.acquire().shared()
    try store.breaker("rated", policy: BreakerPolicy(rate: .calls(9, per: .seconds(86_400)))).run {}
    bench.advance(by: 7_200_000)
    let pruned = bench("prune", "--idle", "1h")
    #expect(pruned.output.isEmpty, "\(pruned)")
    for (name, reason) in [
      ("held", "it is held"), ("limited", "calls are under way"),
      ("rated", "calls have begun that count under its rate"),
    ] {
      let answer = bench("delete", name)
      #expect(answer.code == 1 && answer.errors.contains(reason), "\(answer)")
    }
    permit.succeed()
    #expect(bench("delete", "limited").code == 0)
    #expect(bench("delete", "held", "--force").code == 0)
    store.close()
  }

  @Test func `a failure counts as use when breakers are pruned`() {
    let bench = CommandBench()
    _ = bench("run", "pay", "--", "false")
    bench.advance(by: day - 1)
    #expect(bench("prune", "--idle", "1d", "--json").output.hasPrefix("{\"pruned\":[],\"kept\":[{"))
    bench.advance(by: 1)
    #expect(bench("prune", "--idle", "1d").output == "pay: pruned\n")
  }

  @Test func `prune requires --idle`() {
    #expect(CommandBench()("prune").code == 64)
  }
}

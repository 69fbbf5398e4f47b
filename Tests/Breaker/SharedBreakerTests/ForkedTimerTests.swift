import TestSupport
import Testing

/// A fork of a process that has timers.
@Suite(.timeLimit(.minutes(60))) struct ForkedTimerTests {
  private static let policy = "max-failures=1000000"

  @Test(.startsThreadsInChildren)
  func `a forked child has no timer thread until it sets a time of its own`() throws {
    let parent = try Stage().puppets(1, Self.policy)[0]
    #expect(try parent.ask("threads") == "0")
    #expect(try parent.ask("fork job 1 2") == "failed after 2 timeouts")
    #expect(try parent.ask("threads") == "0")
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
    #expect(try parent.ask("fork threads") == "0")
    #expect(try parent.ask("fork job 1 2") == "failed after 2 timeouts")
    #expect(try parent.ask("fork fork job 1 2") == "failed after 2 timeouts")
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
  }

  @Test(.startsThreadsInChildren)
  func `a fork leaves jobs that are under way to the parent`() throws {
    let parent = try Stage().puppets(1, Self.policy)[0]
    #expect(try parent.ask("job-begin 3600000 1") == "started")
    #expect(try parent.ask("fork job-state") == "idle")
    #expect(try parent.ask("fork job-start") == "started")
    #expect(try parent.ask("fork job 1 1") == "failed after 1 timeouts")
    #expect(try parent.ask("job-state") == "under way")
    #expect(try parent.ask("job-start") == "not started")
    #expect(try parent.ask("job 1 1") == "failed after 1 timeouts")
    #expect(try parent.ask("snapshot").contains(" failures=2 "))
  }

  @Test(.forksBesideThreads)
  func `timers go on in parent and child when a fork comes at any moment`() throws {
    let parent = try Stage().puppets(1, Self.policy)[0]
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
    let forks = max(10, rounds(200))
    #expect(try parent.ask("fork-timing 4 \(forks)") == "children \(forks)")
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
  }
}

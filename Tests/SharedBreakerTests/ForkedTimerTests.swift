import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A fork of a process that keeps the time of calls` {
  private static let policy = "max-failures=1000000"

  @Test func `leaves a child without a thread until it sets a time of its own`() throws {
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

  @Test func `leaves what was under way to the parent`() throws {
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
  func `may come at any moment, and times go on on both sides`() throws {
    let parent = try Stage().puppets(1, Self.policy)[0]
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
    let forks = max(10, rounds(200))
    #expect(try parent.ask("fork-timing 4 \(forks)") == "children \(forks)")
    #expect(try parent.ask("job 1 2") == "failed after 2 timeouts")
  }
}

import SharedBreaker
import TestSupport
import Testing

/// A hook that several processes share.
@Suite struct HookTests {
  private func events(_ stage: Stage) throws -> Int {
    Int(try Database.value(stage.store, "SELECT count(*) FROM event")) ?? -1
  }

  private func handled(_ stage: Stage) throws -> [Int] {
    try Files.read(stage.directory.file("handled")).split(separator: 10).compactMap {
      Int(String(decoding: $0, as: UTF8.self))
    }
  }

  /// Waits until an entry has been handled; for entry 0, until a process handles the hook.
  private func wait(on stage: Stage, until entry: Int, _ column: String = "handled") throws {
    let sql = "SELECT \(column) FROM hook WHERE name = 'pager'"
    try DirectoryWatch.wait(in: stage.directory.file("state")) {
      Int(try Database.value(stage.store, sql)) ?? -1 >= entry
    }
  }

  private func handle(_ stage: Stage, _ puppet: Puppet, _ word: String = "") throws {
    #expect(try puppet.ask("connect") == "ok")
    let file = stage.directory.file("handled")
    #expect(try puppet.ask("handle pager \(file) \(word)") == "ok")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hook of several processes runs once for each entry, in order`() throws {
    let stage = try Stage()
    let puppets = try (0..<16).map { _ in try stage.puppet() }
    for puppet in puppets { try handle(stage, puppet) }
    try wait(on: stage, until: 0)
    for (index, puppet) in puppets.enumerated() {
      try puppet.send("trips \(rounds(1_000) / 16 + 1) breaker\(index)")
    }
    for puppet in puppets { #expect(try puppet.answer() == "ok") }
    let count = try events(stage)
    try wait(on: stage, until: count)
    #expect(try handled(stage) == Array(1...count))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hook runs again if its process is killed inside it, but not if killed later`() throws {
    let stage = try Stage()
    let (victim, tripper) = (try stage.puppet(), try stage.puppet())
    try handle(stage, victim, "endless")
    try wait(on: stage, until: 0)
    try tripper.ask("trips 1 api")
    #expect(try victim.ask("hear 1") == "1")
    let heir = try stage.puppet()
    try handle(stage, heir)
    victim.kill()
    #expect(try heir.ask("hear 2") == "1 2")
    try wait(on: stage, until: 2)
    heir.kill()
    let last = try stage.puppet()
    try handle(stage, last)
    try tripper.ask("trips 1 api")
    #expect(try last.ask("hear 2") == "3 4")
    try wait(on: stage, until: 4)
    #expect(try handled(stage) == [1, 2, 3, 4])
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hook is taken over from a stopped process, whose late report is void`() throws {
    let stage = try Stage()
    let (stopped, tripper) = (try stage.puppet(), try stage.puppet())
    try handle(stage, stopped, "endless")
    try wait(on: stage, until: 0)
    try tripper.ask("trips 1 api")
    #expect(try stopped.ask("hear 1") == "1")
    stopped.process.stop()
    let heir = try stage.puppet()
    try handle(stage, heir)
    stage.clock.advance(by: .seconds(60))
    #expect(try heir.ask("hear 2") == "1 2")
    try wait(on: stage, until: 2)
    stopped.process.resume()
    #expect(try stopped.ask("silence") == "ok")
    try tripper.ask("trips 1 api")
    #expect(try heir.ask("hear 2") == "3 4")
    try wait(on: stage, until: 4)
    #expect(try handled(stage) == [1, 2, 3, 4])
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hook that throws is tried again and given up after three attempts`() throws {
    let stage = try Stage()
    let puppet = try stage.puppet()
    try handle(stage, puppet, "failing")
    try wait(on: stage, until: 0)
    try puppet.ask("trip")
    for failures in 1...2 {
      #expect(try puppet.ask("hear 1") == "1")
      try wait(on: stage, until: failures, "failures")
      stage.clock.advance(by: .seconds(10))
    }
    #expect(try puppet.ask("hear 1") == "1")
    try wait(on: stage, until: 1)
    #expect(try puppet.ask("silence") == "ok")
    #expect(try puppet.ask("events").contains("gave-up-1"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hook whose task is cancelled is left to other processes at once`() throws {
    let stage = try Stage()
    let (first, second) = (try stage.puppet(), try stage.puppet())
    try handle(stage, first, "endless")
    try wait(on: stage, until: 0)
    try first.ask("trip")
    #expect(try first.ask("hear 1") == "1")
    try handle(stage, second)
    #expect(try first.ask("silence") == "ok")
    #expect(try second.ask("hear 1") == "1")
    #expect(
      try Database.value(stage.store, "SELECT failures FROM hook WHERE name = 'pager'") == "0")
  }
}

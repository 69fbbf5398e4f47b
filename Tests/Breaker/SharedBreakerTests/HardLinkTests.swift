import Glibc
import SharedBreaker
import TestSupport
import Testing

@Suite struct HardLinkTests {
  private static let policy = "max-failures=3 open-for=30s"

  private func addName(_ other: String, to path: String) throws {
    guard unsafe link(path, other) == 0 else { throw SupportError("link \(other)", errno) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store whose file has two names is opened under neither and loses nothing`() throws {
    let stage = try Stage()
    let running = try stage.puppets(1, Self.policy)[0]
    #expect(try running.ask("failures 2") == "failed 2 rejected 0")
    let other = stage.directory.file("other.db")
    try addName(other, to: stage.store)
    for path in [other, stage.store] {
      let puppet = try Puppet(on: stage, store: path)
      #expect(try puppet.ask("connect").contains("its file has 2 names"), "\(path)")
      // A broken store never stops calls.
      #expect(try puppet.ask("run ok") == "ok 42")
    }
    #expect(!Files.exists(other + "-wal"))
    // A process that has the store open goes on.
    stage.clock.advance(by: .seconds(2))
    #expect(try running.ask("run fail") == "failed")
    #expect(try running.ask("state") == "open")
    #expect(try running.ask("health") == "connected")
    Files.removeAll(other)
    let late = try stage.puppet()
    #expect(try late.ask("state") == "open")
    #expect(try late.ask("snapshot").contains("failures=3"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store whose files all have two names, as after cp -al, is one store`() throws {
    let stage = try Stage()
    let running = try stage.puppets(1, Self.policy)[0]
    #expect(try running.ask("failures 2") == "failed 2 rejected 0")
    let copy = stage.directory.file("copy")
    let answer = try Child.run("/bin/cp", ["-al", stage.directory.file("state"), copy])
    #expect(answer.isEmpty, "\(answer)")
    // A service that is restarted is not affected.
    let late = try stage.puppet()
    #expect(try late.ask("connect") == "ok")
    // Neither is a process that uses the copy as a store.
    let other = try Puppet(on: stage, store: copy + "/breakers.db")
    #expect(try other.ask("run fail") == "failed")
    #expect(try late.ask("state") == "open")
    #expect(try running.ask("state") == "open")
    #expect(try Database.integrity(stage.store) == "ok")
    let files = try #require(try stage.sharedStore().examine().first { $0.check == "files" })
    #expect(files.result == .note, "\(files)")
    #expect(files.means?.hasPrefix("hard links are no backup") == true, "\(files)")
  }

  @Test func `the doctor reports a store whose file has two names`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    store.close()
    let other = stage.directory.file("other.db")
    try addName(other, to: stage.store)
    for findings in [try store.examine(), try store.repair()] {
      let files = try #require(findings.first { $0.check == "files" })
      #expect(files.result == .bad)
      #expect(files.found.contains("the store has 2 names, and its log fewer"), "\(files)")
      #expect(files.repair?.contains("delete the others") == true, "\(files)")
    }
    Files.removeAll(other)
    #expect(try store.examine().allSatisfy(\.isWell))
  }
}

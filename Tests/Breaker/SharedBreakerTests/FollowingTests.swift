import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Processes that follow the history.
@Suite struct FollowingTests {
  private func events(_ stage: Stage) throws -> Int {
    Int(try Database.value(stage.store, "SELECT count(*) FROM event")) ?? -1
  }

  private func numbers(_ range: ClosedRange<Int>) -> String {
    range.map { String($0) }.joined(separator: " ")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener hears the events of all processes, each once and in order`() throws {
    let stage = try Stage()
    let puppets = try (0..<16).map { _ in try stage.puppet() }
    #expect(try puppets.ask("listen").count("ok") == 16)
    for (index, puppet) in puppets.enumerated() {
      try puppet.send("trips \(rounds(1_000) / 16 + 1) breaker\(index)")
    }
    for puppet in puppets { #expect(try puppet.answer() == "ok") }
    let count = try events(stage)
    #expect(count >= 16 * 2)
    for puppet in puppets { #expect(try puppet.ask("hear \(count)") == numbers(1...count)) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener misses nothing while it is stopped and the log starts over`() throws {
    let stage = try Stage()
    let (listener, other) = (try stage.puppet(), try stage.puppet())
    try listener.ask("listen")
    listener.process.stop()
    for _ in 0..<rounds(200) {
      try other.ask("trips 1 api")
      try Database.rows(stage.store, "PRAGMA wal_checkpoint(RESTART)")
    }
    let count = try events(stage)
    listener.process.resume()
    #expect(try listener.ask("hear \(count)") == numbers(1...count))
    try other.ask("trips 1 api")
    let more = try events(stage)
    #expect(try listener.ask("hear \(more - count)") == numbers(count + 1...more))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener hears every commit of a process that was killed at any step of it`() throws {
    let stage = try Stage()
    let listener = try stage.puppet()
    let operatorPuppet = try stage.puppet()
    try listener.ask("listen")
    var heard = 0
    for step in 1... {
      let victim = try stage.puppet("watch")
      try victim.ask("state")
      try victim.ask("stop-at \(step)")
      let last = try victim.ask("trip")
      victim.kill()
      // No process opens the file before the listener has heard, because that would wake it too.
      if last == "ok" || last.hasSuffix("after COMMIT") {
        heard += 1
        #expect(try listener.ask("hear 1") == "\(heard)", "\(last)")
      }
      #expect(try events(stage) == heard, "\(last)")
      if last == "ok" { break }
      try operatorPuppet.ask("reset")
      let more = try events(stage)
      if more > heard {
        #expect(try listener.ask("hear \(more - heard)") == numbers(heard + 1...more))
      }
      heard = more
    }
    #expect(heard > 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener continues in a replaced store and is notified of the loss`() throws {
    let stage = try Stage()
    let (listener, other) = (try stage.puppet(), try stage.puppet())
    try listener.ask("listen")
    try other.ask("trips 1 api")
    let count = try events(stage)
    #expect(try listener.ask("hear \(count)") == numbers(1...count))
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(1))
    try other.ask("trips 1 api")
    #expect(try listener.ask("hear 2") == "!1 2")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener comes back by itself to a store that could not be used`() throws {
    let stage = try Stage()
    let (listener, other) = (try stage.puppet(), try stage.puppet())
    // The listener has begun once it has heard something.
    try listener.ask("listen 0")
    try other.ask("trips 1 api")
    #expect(try listener.ask("hear 2") == "1 2")
    for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
    let nonsense = stage.directory.file("nonsense")
    try Files.write(nonsense, [UInt8](repeating: 7, count: 8_192))
    try Files.rename(nonsense, to: stage.store)
    // This one looks for news and finds something that is not a store.
    let second = try Puppet(on: stage)
    try second.ask("listen 0")
    Files.removeAll(stage.store)
    stage.clock.advance(by: .seconds(1))
    try other.ask("trips 1 api")
    // A listener that looked when there was nothing, or while the file was being made, looks again a
    // second later.
    let isHeard = Guarded(false)
    let seconds = Threads()
    let clock = stage.clock
    seconds.start {
      while !isHeard.withLock({ $0 }) {
        clock.advance(by: .seconds(1))
        usleep(10_000)
      }
    }
    defer {
      isHeard.withLock { $0 = true }
      seconds.join()
    }
    #expect(try listener.ask("hear 2") == "!1 2")
    #expect(try second.ask("hear 2") == "1 2")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener continues where it was and is notified of lost entries`() throws {
    let stage = try Stage()
    let puppet = try stage.puppet()
    try puppet.ask("trips 2 a")
    try puppet.ask("trips 2 b")
    let rows = try Database.rows(stage.store, "SELECT id, name FROM event ORDER BY id")
    let ids = rows.map { $0[0] }
    func heard(after id: String, of name: String = "", _ count: Int) throws -> String {
      try puppet.ask("listen \(id) \(name)")
      return try puppet.ask("hear \(count)")
    }
    #expect(try heard(after: "0", ids.count) == ids.joined(separator: " "))
    #expect(try heard(after: ids[1], ids.count - 2) == ids[2...].joined(separator: " "))
    let ofB = rows.filter { $0[1] == "b" }.map { $0[0] }
    #expect(try heard(after: "0", of: "b", ofB.count) == ofB.joined(separator: " "))

    try Database.rows(stage.store, "DELETE FROM event WHERE id = \(ofB[0])")
    let rest = ofB[1...].joined(separator: " ")
    #expect(try heard(after: "0", of: "b", ofB.count - 1) == "!\(rest)")
    #expect(try heard(after: ofB[0], of: "b", ofB.count - 1) == rest)
    let ofA = rows.filter { $0[1] == "a" }.map { $0[0] }
    #expect(try heard(after: "0", of: "a", ofA.count) == ofA.joined(separator: " "))
    #expect(try heard(after: ofA[ofA.count - 1], ofB.count - 1) == "!\(rest)")
    // An entry that this file has never had came from another file.
    #expect(try heard(after: "1000000", 1) == "!1")
  }

  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a listener continues after a fork, and the child takes nothing away from it`() throws {
    let stage = try Stage()
    let puppet = try stage.puppet()
    try puppet.ask("listen 0")
    // First the listener begins and the parent trips once, because a child can wait indefinitely
    // for a generic type that another thread was creating at the fork.
    try puppet.ask("trips 1 parent")
    let begun = try events(stage)
    #expect(try puppet.ask("hear \(begun)") == numbers(1...begun))
    #expect(try puppet.ask("fork trips 1 child") == "ok")
    try puppet.ask("trips 1 parent")
    let count = try events(stage)
    #expect(try puppet.ask("hear \(count - begun)") == numbers(begun + 1...count))
    #expect(try puppet.ask("fork watches") == "0")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a listener that has ended no longer costs anything`() throws {
    let stage = try Stage()
    let puppet = try stage.puppet()
    #expect(try puppet.ask("watches") == "0")
    try puppet.ask("listen")
    try puppet.ask("trips 1 api")
    try puppet.ask("hear 1")
    #expect(try puppet.ask("watches") == "1")
    try puppet.ask("silence")
    #expect(try puppet.ask("watches") == "0")
    try puppet.ask("listen")
    try puppet.ask("trips 1 api")
    #expect(try puppet.ask("hear 1") == "3")
  }
}

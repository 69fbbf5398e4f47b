import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Code of the same process that opens and closes files of the store.
///
/// With a descriptor's close, the process loses all POSIX locks that it has on the file
/// (sqlite.org/howtocorrupt.html, 2.2).
@Suite struct ForeignCloseTests {
  @Test func `a store that is closed leaves no lock on a descriptor of the application`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.connect()
    store.close()
    let own = unsafe open(stage.store, O_RDWR | O_CLOEXEC)
    defer { close(own) }
    try store.connect()
    store.close()
    // For this, SQLite needs the file for itself.
    #expect(try Database.value(stage.store, "PRAGMA journal_mode=DELETE") == "delete")
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["file", "-wal", "-shm", "file -wal -shm"])
  func `no outcome is lost while a thread of each process reads the files`(files: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(4, "max-failures=1000000 open-for=30s")
    #expect(try puppets.ask("meddle \(files)").allSatisfy { $0 == "ok" })
    let each = 5 * rounds(200)
    for puppet in puppets { try puppet.send("failures \(each)") }
    // Others come and go meanwhile, and each of them looks whether it is the first or the last one.
    for _ in 0..<rounds(100) {
      let late = try stage.puppet()
      #expect(try late.ask("run fail") == "failed")
      #expect(try late.ask("health") == "connected")
      late.kill()
      #expect(try Database.integrity(stage.store) == "ok")
    }
    for puppet in puppets {
      #expect(try puppet.answer() == "failed \(each) rejected 0")
      #expect(try puppet.ask("health") == "connected")
    }
    let total = 4 * each + rounds(100)
    let last = try stage.puppet()
    let snapshot = try last.ask("snapshot")
    #expect(snapshot.contains(" failures=\(total) "), "\(snapshot)")
    #expect(try last.ask("health") == "connected")
    #expect(try Database.integrity(stage.store) == "ok")
  }
}

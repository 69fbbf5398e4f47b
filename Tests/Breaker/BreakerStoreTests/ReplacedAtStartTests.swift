import Glibc
import SharedBreaker
import TestSupport
import Testing

@Suite struct ReplacedAtStartTests {
  @Test(.timeLimit(.minutes(60)))
  func `a file replaced while it is being opened is noticed within a second`() throws {
    let stage = try Stage()
    let directory = stage.directory.file("state")
    try Files.makeDirectory(directory)
    try Files.write(stage.store, [])
    // A process that creates a store waits for others that do the same.
    let lock = unsafe open(stage.store + "-lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    #expect(flock(lock, LOCK_EX) == 0)
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    let threads = Threads()
    threads.start { try? store.connect() }
    while !isOpen(stage.store) { usleep(1_000) }
    let other = stage.directory.file("other.db")
    try SharedStore(path: other, options: StoreOptions(clock: stage.clock.clock))
      .breaker("api").force(.forcedOpen)
    try Database.rows(other, "PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.rename(other, to: stage.store)
    close(lock)
    threads.join()
    stage.clock.advance(by: .seconds(1))
    #expect(breaker.snapshot().mode == .forcedOpen)
  }

  private func isOpen(_ path: String) -> Bool {
    (0..<4_096).contains { descriptor in
      var target = [CChar](repeating: 0, count: 4_096)
      let link = "/proc/self/fd/\(descriptor)"
      let length = unsafe readlink(link, &target, target.count - 1)
      return String(decoding: target[..<max(0, length)].map(UInt8.init(bitPattern:)), as: UTF8.self)
        == path
    }
  }
}

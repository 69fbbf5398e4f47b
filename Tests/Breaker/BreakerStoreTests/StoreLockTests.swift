import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct StoreLockTests {
  /// Opens a file and locks it, as any program that can open it may.
  private func lock(_ path: String, _ flags: Int32) throws -> Int32 {
    let descriptor = unsafe open(path, flags | O_CLOEXEC, 0o600)
    guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else {
      throw SupportError("flock \(path)", errno)
    }
    return descriptor
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lock that another program holds on the directory stops no process`() throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder, mode: 0o755)
    let others = try lock(folder, O_RDONLY | O_DIRECTORY)
    defer { close(others) }
    let puppet = try stage.puppet("lock-timeout=500")
    #expect(try puppet.ask("connect") == "ok")
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(Files.exists(stage.store + "-counters"))
    #expect(try puppet.ask("health") == "connected")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process waits for the lock file up to the lock timeout, and the error names it`() throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder, mode: 0o755)
    let others = try lock(stage.store + "-lock", O_RDWR | O_CREAT)
    defer { close(others) }
    let puppet = try stage.puppet("lock-timeout=50")
    let answer = try puppet.ask("connect")
    #expect(answer.hasPrefix("store busy the lock file \(stage.store)-lock stays locked"))
    #expect(!Files.exists(stage.store))
    #expect(try puppet.ask("run ok") == "ok 42")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the lock is taken on a new file if the lock file is deleted during the wait`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("breakers.db")
    let path = store + "-lock"
    let others = try lock(path, O_RDWR | O_CREAT)
    let result = Guarded("")
    let threads = Threads()
    threads.start {
      do throws(StoreError) {
        try StoreLock.held(store, atMost: .seconds(60)) { _ in
          let descriptor = unsafe open(path, O_RDWR | O_CLOEXEC)
          let isHeld = flock(descriptor, LOCK_EX | LOCK_NB) != 0
          result.withLock { $0 = descriptor >= 0 && isHeld ? "held" : "free" }
          close(descriptor)
        }
      } catch {
        result.withLock { $0 = "\(error)" }
      }
    }
    while Files.openDescriptors(of: path) < 2 { usleep(1_000) }
    Files.removeAll(path)
    close(others)
    threads.join()
    #expect(result.withLock { $0 } == "held")
    let again = try lock(path, O_RDWR | O_NONBLOCK)
    close(again)
  }

  @Test func `the lock ends with its body even if a child has its descriptor`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("breakers.db")
    // fork(2) does the same to a descriptor.
    let copies = try StoreLock.held(store, atMost: .seconds(1)) { _ in
      (3..<256).filter { Self.target(of: $0) == store + "-lock" }.map { dup($0) }
    }
    #expect(copies.count == 1)
    try StoreLock.held(store, atMost: .zero) { _ in }
    copies.forEach { close($0) }
  }

  private static func target(of descriptor: Int32) -> String {
    DirectoryListing.target("/proc/self/fd/\(descriptor)")
  }

  @Test
  func `the lock file has the rights of the store, and none for users who may only read`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("breakers.db")
    for (mode, expected) in [(0o600, 0o600), (0o660, 0o660), (0o644, 0o600), (0o666, 0o666)]
      as [(UInt32, UInt32)]
    {
      try Files.write(store, [])
      try Files.changeMode(store, to: mode)
      try StoreLock.held(store, atMost: .seconds(1)) { _ in }
      #expect(try Files.permissions(of: store + "-lock").mode == expected)
      #expect(Files.names(in: directory.path).count == 4, "the store, its lock file, and two dots")
      Files.removeAll(store + "-lock")
    }
  }

  @Test(arguments: ["link", "fifo", "directory"])
  func `a lock path that leads to anything but a file is refused`(kind: String) throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("breakers.db")
    switch kind {
    case "link": try Files.link(store + "-lock", to: directory.file("elsewhere"))
    case "fifo": try Files.makeFIFO(store + "-lock")
    default: try Files.makeDirectory(store + "-lock")
    }
    let error = #expect(throws: StoreError.self) { try SharedStore(path: store).connect() }
    let words = try #require(error?.description)
    #expect(words.hasPrefix("cannot use \(store)-lock: it is "), "\(words)")
    #expect(!Files.exists(store) && !Files.exists(directory.file("elsewhere")))
  }
}

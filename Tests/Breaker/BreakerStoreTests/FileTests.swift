import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct FileTests {
  private static func mode(_ path: String) -> UInt32 {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
  }

  /// Each case is a process of its own, because the umask belongs to the process.
  @Test(.timeLimit(.minutes(60)), arguments: [0o000, 0o022, 0o077, 0o777] as [UInt32])
  func `the files of a store are their user's alone under any umask`(mask: UInt32) async {
    await #expect(processExitsWith: .success) { [mask] in
      let directory = try TemporaryDirectory()
      umask(mask)
      let store = SharedStore(path: directory.file("a/b/breakers.db"))
      try store.breaker("api").trip()
      for part in ["", "-wal", "-shm", "-counters", "-lock"] {
        precondition(Self.mode(directory.file("a/b/breakers.db\(part)")) == 0o600)
      }
      precondition(Self.mode(directory.file("a/b")) == 0o700)
      precondition(Self.mode(directory.file("a")) == 0o700)
      umask(0o022)
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: [0o000, 0o077] as [UInt32])
  func `the files of a store for a group have the mode that was asked for`(mask: UInt32) async {
    await #expect(processExitsWith: .success) { [mask] in
      let directory = try TemporaryDirectory()
      guard let group = unsafe getgrgid(getgid()) else { return }
      umask(mask)
      let options = StoreOptions(mode: 0o660, group: unsafe String(cString: group.pointee.gr_name))
      let store = SharedStore(path: directory.file("shared/breakers.db"), options: options)
      try store.breaker("api").trip()
      for part in ["", "-wal", "-shm", "-counters", "-lock"] {
        precondition(Self.mode(directory.file("shared/breakers.db\(part)")) == 0o660)
      }
      precondition(Self.mode(directory.file("shared")) == 0o2770)
      umask(0o022)
    }
  }

  @Test func `the guide on compatibility names the version of the tables`() throws {
    let root = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined()
    let guide = try Files.read(
      root + "/Sources/Breaker/SharedBreaker/SharedBreaker.docc/Compatibility.md")
    let rows = String(decoding: guide, as: UTF8.self).matches(of: #/\n\| ([0-9]+) \| [0-9.]+ \|/#)
    #expect(rows.last.flatMap { Int64($0.1) } == Migrator.version)
  }

  @Test func `the library holds each migration of the folder once, in order`() throws {
    let names = Migration.all.map(\.name)
    #expect(names == names.sorted())
    #expect(Set(names).count == names.count)
    let folder = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined()
    var found: [String] = []
    guard let directory = unsafe opendir(folder + "/migrations") else {
      throw SupportError("opendir", errno)
    }
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name.hasSuffix(".sql") { found.append(name) }
    }
    unsafe closedir(directory)
    #expect(found.sorted() == names)
    for migration in Migration.all {
      #expect(try Files.read(folder + "/migrations/" + migration.name) == migration.bytes)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the history is bounded, and policies do not crowd out the other entries`() throws {
    let directory = try TemporaryDirectory()
    let store = SharedStore(path: directory.store)
    let breaker = try store.breaker("api")
    try breaker.trip(reason: "the one that matters")
    for round in 0..<700 { _ = try store.breaker("api", policy: .init(maxFailures: round + 1)) }
    #expect(try store.history(of: "api").contains { $0.reason == "the one that matters" })
    #expect(try store.history(of: "api").count < 200)
    for _ in 0..<600 { try breaker.reset() }
    let history = try store.history(of: "api")
    #expect(history.count < 700)
    #expect(history.map(\.id) == history.map(\.id).sorted())
    #expect(try store.history(of: "api", limit: 2).map(\.change.wireKind) == ["reset", "reset"])
    #expect(try store.declarations(of: "api").count == 8)
  }
}

import Glibc
import TestSupport
import Testing

@Suite struct CostTests {
  /// The change counter of the log's index, which every commit increments.
  ///
  /// See section 2.1 of sqlite.org/walformat.html.
  private func commits(of store: String) throws -> [UInt8] {
    Array(try Files.read(store + "-shm")[8..<12])
  }

  @Test(
    .timeLimit(.minutes(60)), arguments: ["consecutive", "window", "last", "slow", "decided"])
  func `healthy and rejected calls allocate nothing and commit nothing`(load: String) throws {
    let directory = try TemporaryDirectory()
    // The benchmark program counts its own allocations.
    let child = try Child(
      BuiltProducts.path(of: "bench"), ["child", "costs", load, directory.path, "1.1"])
    #expect(try child.line() == "ready")
    let before = try commits(of: directory.file("store.db"))
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    try child.send("\(now.tv_sec).\(String(1_000_000_000 + now.tv_nsec).dropFirst())")
    let words = try #require(try child.line()).split(separator: " ").compactMap { Double($0) }
    try #require(words.count == 3)
    #expect(words[0] > 0)
    #expect(words[2] == 0)
    #expect(try commits(of: directory.file("store.db")) == before)
    child.kill()
  }
}

import SharedBreaker
import TestSupport
import Testing

/// The commands with which the guide Backing Up makes and restores a backup.
@Suite struct BackupGuideTests {
  private static func blocks(below title: String) throws -> [String] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let path = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/BackingUp.md"
    let text = String(decoding: try Files.read(path), as: UTF8.self)
    let section = try #require(text.components(between: "## \(title)\n", "\n## "))
    return section.matches(of: /```sh\n((?s).*?)```/).map { String($0.1) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a backup as the guide makes it has every success, also after it was restored`() throws {
    let blocks = try Self.blocks(below: "Copy the store") + Self.blocks(below: "Restore a copy")
    try #require(blocks.count == 2)
    let directory = try TemporaryDirectory()
    let store = SharedStore(path: directory.store)
    let breaker = try store.breaker("api")
    for _ in 0..<20 { try breaker.run {} }
    // The process still has the store open, and has written none of its successes into the file.
    let folder = directory.file("backups")
    try Files.makeDirectory(folder)
    // The commands, with the store and the folder of the test.
    func run(_ block: String) throws {
      let words = block.replacing("/var/backups", with: folder)
      let script =
        "set -e; export SHARED_BREAKER_STORE='\(directory.store)'\n"
        + words.replacing("cbctl ", with: "'\(BuiltProducts.path(of: "cbctl"))' ")
      _ = try Child.run("/bin/sh", ["-c", script])
    }
    try run(blocks[0])
    let copy = SharedStore(path: folder + "/breakers.db")
    #expect(try copy.snapshot(of: "api")?.totals.successes == 20)
    copy.close()

    for _ in 0..<5 { try breaker.run {} }
    try run(blocks[1])
    store.close()
    let restored = SharedStore(path: directory.store)
    #expect(try restored.snapshot(of: "api")?.totals.successes == 20)
    for _ in 0..<3 { try restored.breaker("api").run {} }
    #expect(try restored.snapshot(of: "api")?.totals.successes == 23)
    #expect(try restored.examine().allSatisfy { $0.isWell || $0.check == "leftovers" })
  }
}

extension String {
  /// The text between two others, or up to the end.
  fileprivate func components(between first: String, _ last: String) -> Substring? {
    guard let start = firstRange(of: first)?.upperBound else { return nil }
    let rest = self[start...]
    return rest.firstRange(of: last).map { rest[..<$0.lowerBound] } ?? rest
  }
}

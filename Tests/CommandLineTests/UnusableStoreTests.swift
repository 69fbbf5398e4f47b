import TestSupport
import Testing

/// Paths that cannot be used as a store.
@Suite struct UnusableStoreTests {
  enum Trouble: CaseIterable {
    case directory, garbage, truncated, foreign, newer, link, nothing, throughFile
  }

  private func prepare(_ trouble: Trouble, _ cbctl: inout CommandLineTool) throws {
    let path = cbctl.directory.file("store.db")
    cbctl.store = path
    switch trouble {
    case .directory: cbctl.store = cbctl.directory.path
    case .garbage: try Files.write(path, Array(repeating: 0x5A, count: 8_192))
    case .truncated:
      _ = try cbctl("run x -- true")
      for part in ["-wal", "-shm"] { Files.removeAll(path + part) }
      try Files.truncate(path, to: 5_000)
    case .foreign:
      try Files.write(path, [])
      try Database.rows(path, "CREATE TABLE t (a)")
    case .newer:
      _ = try cbctl("run x -- true")
      try Database.rows(path, "PRAGMA user_version = 999")
    case .link: try Files.link(path, to: cbctl.directory.file("elsewhere.db"))
    case .nothing: break
    case .throughFile:
      try Files.write(path, [])
      cbctl.store = path + "/store.db"
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: Trouble.allCases)
  func `a path that is no store gives one clear line and exit code 69`(trouble: Trouble) throws {
    var cbctl = try CommandLineTool()
    try prepare(trouble, &cbctl)
    let result = try cbctl("status")
    #expect(result.code == 69)
    #expect(result.output.isEmpty)
    #expect(result.errors.hasPrefix("cbctl: "))
    #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
  }
}

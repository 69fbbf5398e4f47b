import TestSupport
import Testing

@Suite struct `The outcomes of a command behind a breaker` {
  @Test(.timeLimit(.minutes(10)))
  func `are told apart by their codes`() throws {
    var cbctl = try CommandLineTool()
    #expect(try cbctl("run x -- true").code == 0)
    #expect(try cbctl("run x -- false").code == 1)
    #expect(try cbctl("run x -- sh -c 'exit 7'").code == 7)
    let missing = try cbctl("run x -- no-such-program")
    #expect(missing.code == 127)
    #expect(missing.errors.contains("no-such-program"))
    #expect(try cbctl("run x -- /").code == 126)
    // What could not be run says nothing of the resource.
    #expect(try cbctl("show x --json").output.contains("\"ignored\":2"))
    #expect(try cbctl("run x -- sh -c 'kill -9 $$'").code == 137)
    #expect(try cbctl("trip x").code == 0)
    let rejected = try cbctl("run x -- true")
    #expect(rejected.code == 75)
    #expect(rejected.output.isEmpty)
    cbctl.store = "/dev/null"
    let storeless = try cbctl("run x -- echo ran")
    #expect(storeless.code == 0)
    #expect(storeless.output == "ran\n")
    #expect(storeless.errors.split(separator: "\n").count == 1)
    #expect(try cbctl("run x --on-store-failure fail -- true").code == 69)
  }

  @Test(.timeLimit(.minutes(10)))
  func `a misspelt name makes nothing`() throws {
    let cbctl = try CommandLineTool()
    #expect(try cbctl("status payments").code == 69)
    #expect(!Files.exists(cbctl.store))
    #expect(try cbctl("run payments -- true").code == 0)
    for command in ["status payment", "show payment", "check payment", "reset payment"] {
      let result = try cbctl(command)
      #expect(result.code == 66)
      #expect(result.errors.contains("payments"))
    }
    #expect(try cbctl("status --json").output.components(of: "\"name\"") == 1)
  }
}

@Suite struct `A path that is no store` {
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

  @Test(.timeLimit(.minutes(10)), arguments: Trouble.allCases)
  func `is one clear line and the code 69`(trouble: Trouble) throws {
    var cbctl = try CommandLineTool()
    try prepare(trouble, &cbctl)
    let result = try cbctl("status")
    #expect(result.code == 69)
    #expect(result.output.isEmpty)
    #expect(result.errors.hasPrefix("cbctl: "))
    #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
  }
}

extension String {
  fileprivate func components(of part: String) -> Int {
    var count = 0
    var rest = self[...]
    while let range = rest.firstRange(of: part) {
      count += 1
      rest = rest[range.upperBound...]
    }
    return count
  }
}

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
  func `a path that is not a store gives one clear line and exit code 69`(trouble: Trouble) throws {
    var cbctl = try CommandLineTool()
    try prepare(trouble, &cbctl)
    let result = try cbctl("status")
    #expect(result.code == 69)
    #expect(result.output.isEmpty)
    #expect(result.errors.hasPrefix("cbctl: "))
    #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
  }

  @Test(
    .timeLimit(.minutes(60)), .disabled(if: Memory.isWatched, "a sanitizer needs more"),
    arguments: [
      ("-n 4", "too many open files: raise 'ulimit -n'"),
      ("-f 40", "disk I/O error (file too large): raise 'ulimit -f'"),
    ])
  func `an error from a limit of the process names the limit and how to raise it`(
    limit: String, words: String
  ) throws {
    var cbctl = try CommandLineTool()
    cbctl.prefix = "sh -c 'ulimit \(limit); exec \"$0\" \"$@\"'"
    let result = try cbctl("policy x --set probes=2")
    #expect(result.code == 69)
    #expect(result.errors.hasSuffix(": \(words)\n"), "\(result.errors)")
  }

  /// The databases of other programs that a store could be mistaken for.
  enum Foreign: String, CaseIterable {
    case rollback = "CREATE TABLE theirs (id)"
    case log = "PRAGMA journal_mode = WAL; CREATE TABLE theirs (id)"
    case named = "PRAGMA application_id = 1; CREATE TABLE theirs (id)"
    case empty = "PRAGMA application_id = 1"
    case garbage
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: Foreign.allCases,
    ["status", "init", "run x -- true", "metrics", "doctor", "doctor --repair"])
  func `nothing is left beside a file of another program, and it is not changed`(
    database: Foreign, command: String
  ) throws {
    var cbctl = try CommandLineTool()
    let folder = cbctl.directory.file("theirs")
    try Files.makeDirectory(folder, mode: 0o755)
    cbctl.store = folder + "/theirs.db"
    try Files.write(cbctl.store, database == .garbage ? Array(repeating: 0x5A, count: 8_192) : [])
    if database != .garbage {
      _ = try Database.rows(cbctl.store, database.rawValue)
    }
    let bytes = try Files.read(cbctl.store)
    let result = try cbctl(command)
    #expect(result.code == (command.hasPrefix("run") ? 0 : command.hasPrefix("doctor") ? 1 : 69))
    #expect(try Files.read(cbctl.store) == bytes)
    #expect(Files.names(in: folder).filter { !$0.hasPrefix(".") } == ["theirs.db"])
  }

  @Test func `a database of another program that has it open keeps its log`() throws {
    var cbctl = try CommandLineTool()
    cbctl.store = cbctl.directory.file("theirs.db")
    try Files.write(cbctl.store, [])
    let rows = "PRAGMA journal_mode = WAL; CREATE TABLE theirs (id)"
    let others = try Holder(cbctl.store, rows)
    #expect(try cbctl("status").code == 69)
    #expect(Files.exists(cbctl.store + "-wal"))
    _ = others
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command behind its breaker waits once for a store that is being created`() throws {
    let cbctl = try CommandLineTool()
    try Files.makeDirectory(cbctl.directory.file("state"))
    // As a process holds them that was stopped while it made the store.
    let lock = try FileLock(cbctl.store + "-lock")
    let file = try Holder(cbctl.store, "BEGIN EXCLUSIVE")
    var result: CommandLineTool.Result?
    let time = try ContinuousClock().measure {
      result = try cbctl("run x --max-failures 2 -- echo done")
    }
    #expect(result?.code == 0)
    #expect(result?.output == "done\n")
    #expect(result?.errors.contains("the command runs without its breaker") == true)
    // Half a second is what was promised, and the rest is for a busy machine.
    #expect(time < .seconds(60))
    withExtendedLifetime((lock, file)) {}
  }
}

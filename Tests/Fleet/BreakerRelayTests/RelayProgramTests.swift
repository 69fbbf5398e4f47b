@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// How the program `cbrelay` ends.
struct RelayProgramTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// Runs a line of bash in which `$cbrelay` is the program, and answers its output and errors.
  private func bash(_ line: String) throws -> [Substring] {
    let setting = "cbrelay='\(BuiltProducts.path(of: "cbrelay"))'; store='\(directory.store)';"
    return try Child.run("/bin/bash", ["-c", "\(setting) { \(line); } 2>&1 </dev/null"])
      .split(separator: "\n")
  }

  private static let check = "--check --redis unix:///nowhere/redis.sock --fleet a --store $store"

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [("--help", 1), ("--version", 1), (check, 69)])
  func `output that cannot be written is a failure with a reason`(
    words: String, code: Int
  ) throws {
    let full = try bash("$cbrelay \(words) >/dev/full; echo code $?")
    #expect(
      full == [
        "cbrelay: cannot write to standard output: No space left on device: free some space, or "
          + "print elsewhere", "code \(code)",
      ])
    let closed = try bash("$cbrelay \(words) >&-; echo code $?")
    #expect(
      closed == [
        "cbrelay: cannot write to standard output: Bad file descriptor: free some space, or print "
          + "elsewhere", "code \(code)",
      ])
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["--help", "--version"])
  func `a reader that has gone is not a failure`(words: String) throws {
    let gone = "exec {hold}> >(true); wait $!"
    #expect(try bash("\(gone); $cbrelay \(words) >&$hold; echo code $?") == ["code 0"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay of another fleet than its store's ends and says what to do`() throws {
    let store = SharedStore(path: directory.store)
    let claim = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    try claim.note(isConnected: false, problem: nil)
    claim.release()
    let words = "--redis unix:///nowhere/redis.sock --fleet test --store $store"
    let lines = try bash("timeout 300 $cbrelay \(words); echo code $?")
    #expect(
      lines == [
        "cbrelay: the store \(directory.store) belongs to fleet prod: use that one, or run 'cbctl "
          + "fleet leave' first", "code 69",
      ])
  }
}

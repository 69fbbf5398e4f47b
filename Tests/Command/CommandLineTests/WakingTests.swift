import Glibc
import TestSupport
import Testing

/// Commands that wait for what other processes do.
///
/// No test depends on whether the command is already waiting when the other process acts.
struct WakingTests {
  private let cbctl: CommandLineTool

  init() throws {
    cbctl = try CommandLineTool()
    _ = try cbctl("policy api --set open-for=1h")
  }

  private func start(_ words: String...) throws -> Child {
    try Child(BuiltProducts.path(of: "cbctl"), ["--store", cbctl.store] + words)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a wait ends when another process changes the state`() throws {
    for _ in 0..<3 {
      let wait = try start("wait", "api", "--state", "open")
      _ = try cbctl("trip api")
      #expect(try wait.rest().hasPrefix("api: open, retry in "))
      #expect(wait.waitForEnd() == 0)
      let back = try start("wait", "api", "--state", "closed", "--quiet")
      _ = try cbctl("reset api")
      #expect(try back.rest() == "")
      #expect(back.waitForEnd() == 0)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a wait for a state that already holds ends at once`() throws {
    #expect(try cbctl("wait api --state closed --timeout 0s").code == 0)
    let document = try cbctl("wait api --state permitted --json").output
    #expect(document.hasPrefix(#"{"breakers":[{"name":"api","state":"closed""#))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a wait that fails says why`() throws {
    let late = try cbctl("wait api --state open --timeout 20ms")
    #expect(late.code == 1)
    #expect(late.output.isEmpty)
    #expect(late.errors.hasPrefix("cbctl: 'api' is not open after 20ms: closed: "))
    #expect(try cbctl("wait ipa --state open").code == 66)
    #expect(try cbctl("wait api").code == 64)
    #expect(try cbctl("wait api --state ajar").code == 64)
    let deleted = try start("wait", "api", "--state", "open")
    _ = try cbctl("delete api --force")
    #expect(deleted.waitForEnd() == 66)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a wait ends when time alone brings about its state`() throws {
    _ = try cbctl("trip api --for 300ms")
    #expect(try cbctl("wait api --state due").output == "api: open, the next call is a probe\n")
    _ = try cbctl("force api forced_open --for 300ms")
    #expect(try cbctl("wait api --state permitted").code == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a wait for a free slot ends when the owner of the probe dies`() throws {
    let owner = try Child("/bin/cat", [])
    _ = try cbctl("trip api --for 1us")
    #expect(try cbctl("acquire api --owner-pid \(owner.pid)").code == 0)
    #expect(try cbctl("check api --quiet").code == 75)
    let wait = try start("wait", "api", "--state", "permitted", "--quiet")
    owner.kill()
    #expect(wait.waitForEnd() == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a followed history prints each new entry once`() throws {
    _ = try cbctl("trip api")
    let follow = try start("history", "api", "--follow", "--since", "1h", "--json")
    #expect(try follow.line()?.contains(#""kind":"policy""#) == true)
    #expect(try follow.line()?.contains(#""to":"open""#) == true)
    _ = try cbctl("reset api")
    _ = try cbctl("policy other --set probes=2")
    _ = try cbctl("force api observe")
    #expect(try follow.line()?.contains(#""kind":"reset""#) == true)
    #expect(try follow.line()?.contains(#""kind":"mode""#) == true)
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that waits has no pool of tasks, which may end a process without a /proc`()
    throws
  {
    let follow = try start("history", "api", "--follow", "--since", "1h")
    // Listening begins before the first line.
    #expect(try follow.line() != nil)
    #expect(Files.names(in: "/proc/\(follow.pid)/task").filter { Int($0) != nil }.count == 1)
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)))
  func `a followed history of no earlier entries begins with what happens from now on`() throws {
    let follow = try start("history", "api", "--follow", "--limit", "0")
    // Again and again, because nothing tells when the command has begun to listen.
    let end = cbctl.directory.file("end")
    let trip = "'\(BuiltProducts.path(of: "cbctl"))' --store '\(cbctl.store)' trip api --quiet"
    let tripping = try Child("/bin/sh", ["-c", "while [ ! -e '\(end)' ]; do \(trip); done"])
    let first = try #require(try follow.line())
    #expect(!first.contains("  policy  "), "\(first)")
    try Files.write(end, [])
    _ = tripping.waitForEnd()
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)), arguments: [1, 3, 10])
  func `a followed history that begins during changes has each of them once`(limit: Int) throws {
    _ = try cbctl("policy api --set probes=1")
    let set = "'\(BuiltProducts.path(of: "cbctl"))' --store '\(cbctl.store)' policy api --quiet"
    let changing = try Child(
      "/bin/sh", ["-c", "for n in $(seq 2 40); do \(set) --set probes=$n; done"])
    let follow = try start("history", "api", "--follow", "--limit", "\(limit)", "--json")
    var numbers: [Int] = []
    while numbers.last != 40 {
      let line = try #require(try follow.line())
      // The first entry of all is older than the word.
      let match = line.firstMatch(of: /"to":"[^"]*probes=(\d+)"/)
      numbers.append(match.flatMap { Int($0.1) } ?? 0)
    }
    let first = try #require(numbers.first)
    #expect(numbers == Array(first...40))
    _ = changing.waitForEnd()
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)))
  func `a followed history goes on in a file that replaces the store`() throws {
    let follow = try start("history", "--follow", "--limit", "1")
    #expect(try follow.line()?.contains("open-for=1h") == true)
    Files.removeAll(cbctl.store)
    _ = try cbctl("policy new --set probes=2")
    #expect(try follow.line()?.contains("probes=2") == true)
    _ = try cbctl("policy new --set probes=3")
    #expect(try follow.line()?.contains("probes 2 -> 3") == true)
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)), arguments: [["history", "--follow"], ["watch"]])
  func `a command that follows a store says that it was deleted, and that it is back`(
    words: [String]
  ) throws {
    let follow = try Child(
      BuiltProducts.path(of: "cbctl"), ["--store", cbctl.store] + words, hasWords: true)
    #expect(try follow.line()?.contains("api") == true)
    Files.removeAll(cbctl.store)
    let gone = try #require(try follow.line())
    #expect(gone.hasPrefix("cbctl: there is no store at \(cbctl.store): "), "\(gone)")
    #expect(gone.hasSuffix(": waiting for the store"), "\(gone)")
    _ = try cbctl("policy new --set probes=2")
    // On two streams, so in any order. The new store may have no breaker yet when it is found.
    let empty = "cbctl: no breaker matches yet: waiting for the first change"
    let lines = try (0..<(words == ["watch"] ? 3 : 2)).map { _ in try #require(try follow.line()) }
    #expect(lines.count { $0 == "cbctl: the store can be read again" } == 1, "\(lines)")
    #expect(
      lines.count { $0.contains("new") || $0 == empty } == lines.count - 1, "\(lines)")
    follow.kill()
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["history --follow", "watch"])
  func `a command that follows the store ends when its output has no reader`(command: String) throws
  {
    // The shell waits for every command of the pipeline.
    #expect(try cbctl("\(command) | head -n 1; true").output.contains("api"))
  }

  /// Reads the lines of a command up to one that ends with a text.
  private func wait(for text: String, from command: Child) throws {
    while try !#require(try command.line()).hasSuffix(text) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `watch prints a breaker that a call creates, also in a store after a deleted one`() throws {
    let watch = try start("watch")
    try wait(for: "Z  api: closed", from: watch)
    _ = try cbctl("run new -- true")
    try wait(for: "Z  new: closed", from: watch)
    _ = try cbctl("delete new")
    try wait(for: "  new: deleted (closed -> deleted)", from: watch)
    _ = try cbctl("run new -- true")
    try wait(for: "Z  new: closed", from: watch)
    Files.removeAll(cbctl.store)
    _ = try cbctl("run api -- true")
    try wait(for: "Z  api: closed", from: watch)
    _ = try cbctl("run later -- true")
    try wait(for: "Z  later: closed", from: watch)
    watch.kill()
  }

  @Test(.timeLimit(.minutes(60)))
  func `watch prints the state of each breaker and every change of it`() throws {
    _ = try cbctl("policy other --set probes=2")
    let watch = try start("watch", "a*")
    #expect(try watch.line()?.hasSuffix("Z  api: closed") == true)
    _ = try cbctl("trip other")
    _ = try cbctl("trip api --reason why")
    let tripped = try watch.line()
    #expect(tripped?.contains("Z  api: open (why), retry in 1h (closed -> open: why)") == true)
    _ = try cbctl("delete api --force")
    #expect(try watch.line()?.hasSuffix("  api: deleted (open -> deleted)") == true)
    watch.kill()
    let gone = try cbctl("watch api")
    #expect(gone.code == 66)
    let documents = try start("watch", "other", "--json")
    #expect(try documents.line()?.contains(#""change":null,"breaker":{"name":"other""#) == true)
    _ = try cbctl("reset other")
    #expect(try documents.line()?.contains(#""kind":"reset""#) == true)
    documents.kill()
  }
}

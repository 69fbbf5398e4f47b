import TestSupport
import Testing

/// The commands of the guides "One Key, Many Agents" and "Jobs That Must Not Hammer", with stand-ins for the tools in them.
@Suite struct HoldGuideTests {
  private let shell: GuideShell
  private var directory: TemporaryDirectory { shell.directory }

  init() throws {
    shell = try GuideShell(
      with: ["curl", "agent", "sync"],
      that: #"""
        echo asked >> "${0%/*}/asked"
        while [ $# -gt 0 ]; do
          [ "$1" != -D ] || printf 'HTTP/2 429 \r\nretry-after: 60\r\n\r\n' > "$2"
          shift
        done
        [ "${0##*/}" = curl ] && exit 22 || exit 29
        """#)
  }

  private func blocks(of guide: String) throws -> [String] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let path = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/\(guide).md"
    let text = String(decoding: try Files.read(path), as: UTF8.self)
    return text.matches(of: /```sh\n((?s).*?)```/).map { String($0.1) }
  }

  private func run(_ script: String) throws -> (output: String, code: Int32?) {
    try shell.run("OPENAI_API_KEY=sk-1; export OPENAI_API_KEY\n" + script)
  }

  private func timesAsked() throws -> Int {
    try Files.read(directory.file("asked")).count / "asked\n".utf8.count
  }

  @Test(.timeLimit(.minutes(60)))
  func `one answer stops all who use a key, and so do an exit code and a hook's hold`() throws {
    let blocks = try blocks(of: "OneKeyManyAgents")
    try #require(blocks.count == 5)
    let first = try run(blocks[0])
    #expect(first.code == 22)
    #expect(first.output.hasPrefix("cbctl: openai/prod-key: held for "))
    #expect(first.output.hasSuffix(" (HTTP 429)"))
    #expect(try run(blocks[0]).code == 75)
    #expect(try run(blocks[2]).code == 2)
    #expect(try timesAsked() == 1)
    #expect(try run("cbctl hold openai/prod-key --end --quiet").code == 0)
    #expect(try run(blocks[2]).code == 0)
    let second = try run(blocks[1])
    #expect(second.code == 0)
    #expect(second.output.contains("(exit code 29)"))
    #expect(second.output.hasSuffix("(quota used up)"))
    #expect(try timesAsked() == 2)
    #expect(try run(blocks[4]).code == 0)
    #expect(try run("cbctl show openai/prod-key").output.contains("hold-for"))
    // With a limit and a queue, a caller waits for the end of a hold that it can wait for.
    #expect(try run(blocks[3]).code == 0)
    let key = "openai/prod-key"
    #expect(try run("cbctl reset \(key) --quiet").code == 0)
    #expect(try run("cbctl hold \(key) --for 300ms && cbctl run \(key) -- true").code == 0)
    #expect(try run("cbctl hold \(key) --for 6m && cbctl run \(key) -- true").code == 75)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a job of cron stays away silently until the server has said`() throws {
    let blocks = try blocks(of: "JobsThatMustNotHammer")
    try #require(blocks.count == 3)
    let crontab = blocks[0].split(separator: "\n").filter { $0.hasPrefix("*/5 * * * * ") }
    try #require(crontab.count == 1)
    let job = crontab[0].dropFirst("*/5 * * * * ".count).replacing(
      "/var/lib/feed", with: directory.path)
    #expect(try run(String(job)) == ("", 1))
    for _ in 0..<3 { #expect(try run(String(job)) == ("", 0)) }
    #expect(try timesAsked() == 1)
    #expect(try run(blocks[1]).code == 29)
    #expect(try run(blocks[1]).code == 75)
    #expect(try run(blocks[2]).output.contains("(Retry-After of the server)"))
  }
}

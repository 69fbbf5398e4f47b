import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// The scripts of the guide "Sharing a Limit", as they are printed, with stand-ins for the programs in them.
struct LimitGuideTests {
  private let bench = CommandBench()
  private let blocks: [String]

  init() throws {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let guide = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/SharingALimit.md"
    blocks = try #require(Golden.read(guide)).split(separator: "```").map { String($0) }
      .filter { $0.hasPrefix("sh\n") }.map { String($0.dropFirst(3)) }
    try #require(blocks.count == 5)
  }

  /// A program that complains if more than two of it run at a time.
  private static let worker = """
    #!/bin/sh
    if mkdir first 2>/dev/null; then mine=first
    elif mkdir second 2>/dev/null; then mine=second
    else echo "too many"; exit 9
    fi
    echo "did $1"
    rmdir "$mine"
    """

  /// Runs a script in which `program` is the worker, and returns what it prints, in order.
  private func run(_ script: String, _ program: String) -> [Substring] {
    let folder = bench.folder
    // These are copies, because no program can be run while a process has it open for writing.
    Golden.write(Self.worker + "\n", to: "\(folder)/worker.text")
    Golden.write(script, to: "\(folder)/script.text")
    let programs = Terminal.program.split(separator: "/").dropLast().joined(separator: "/")
    let status = Child.shell(
      "cd '\(folder)' && install worker.text '\(program)' && install script.text script && env -i PATH='\(folder)':'/\(programs)':/usr/bin:/bin HOME='\(folder)' "
        + "ASAN_OPTIONS=\"$ASAN_OPTIONS\" DATABASES='a b c d e f' SHARED_BREAKER_STORE='\(bench.path)' setsid sh -e ./script < /dev/null > output 2>&1"
    )
    #expect(status == 0)
    return (Golden.read("\(folder)/output") ?? "").split(separator: "\n").sorted()
  }

  @Test(.timeLimit(.minutes(60)))
  func `the commands for an API set its limit`() {
    let output = run(blocks[0], "nothing")
    #expect(output.contains { $0.hasPrefix("model: ") })
    #expect(output.contains("cbctl: model: created, because no breaker had that name"))
    let policy = bench("policy", "model", "--json").output
    #expect(policy.contains(#""max-concurrent":8,"#))
    #expect(policy.contains(#""lost-calls":"failure""#))
  }

  @Test(.timeLimit(.minutes(60)))
  func `two jobs at a time have the GPU, and the others wait for their turn`() {
    let job = blocks[1].dropLast()
    let script = (1...5).map { _ in "\(job) &\n" }.joined() + "wait\n"
    let output = run(script, "render")
    #expect(output == Array(repeating: "did scene.blend", count: 5))
  }

  @Test(.timeLimit(.minutes(60)))
  func `training takes two units in the background`() {
    let script = "cbctl policy gpu --quiet --set max-concurrent=4 --set reserve=1\n" + blocks[4]
    #expect(run(script, "train") == ["did --resume"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `two databases are backed up at a time, until all of them are`() {
    let output = run(blocks[2], "back-up")
    #expect(output == ["did a", "did b", "did c", "did d", "did e", "did f"])
    #expect(bench("show", "backup").output.contains("6 succeeded"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `two linkers run at a time, whatever starts them, and a failure is ignored`() {
    let linker = blocks[3].replacing("/usr/bin/ld", with: "\(bench.folder)/real-ld")
    Golden.write(linker, to: "\(bench.folder)/ld.text")
    let output = run(
      "install ld.text ld\nfor name in 1 2 3 4 5; do ./ld $name & done\nwait\n", "real-ld")
    #expect(output == ["did 1", "did 2", "did 3", "did 4", "did 5"])
    Golden.write("#!/bin/sh\nexit 1\n", to: "\(bench.folder)/bad.text")
    Child.shell("cd '\(bench.folder)' && install bad.text real-ld && rm -f script output")
    for _ in 0..<7 {
      _ = run("install bad.text real-ld\n./ld x || true\n", "unused")
    }
    #expect(bench("check", "link").code == 0)
    #expect(bench("show", "link").output.contains("7 ignored"))
  }
}
